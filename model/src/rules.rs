//! Rule sets: the switches in which proposals differ, as data.
//!
//! Source: lifetime rules R-* of the project's specification. A rule set is a base plus switches; the built-in ones are
//! [`Rules::mainline`] (Linux 7.3.4), [`Rules::wb_list`] (first patch of the thread: search wb_list for a dying wb) and
//! [`Rules::tree_until_release`] (second: a wb stays in cgwb_tree until it is released). Mirrored code asks [`rules`].

use std::cell::Cell;

macro_rules! switches {
    ($($(#[$m:meta])* $field:ident: $ty:ident $id:literal { $($(#[$vm:meta])* $var:ident = $name:literal),* $(,)? })*) => {
        $(
            $(#[$m])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
            pub enum $ty { $($(#[$vm])* $var),* }
        )*
        /// One value for every switch.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct Rules { $($(#[$m])* pub $field: $ty),* }
        impl Rules {
            /// Every switch: (id, values by name).
            pub const SWITCHES: &'static [(&'static str, &'static [&'static str])] = &[$(($id, &[$($name),*])),*];

            /// Sets a switch by name; the error says what was wrong.
            pub fn set(&mut self, id: &str, value: &str) -> Result<(), SwitchError> {
                match id {
                    $($id => match value {
                        $($name => self.$field = $ty::$var,)*
                        _ => return Err(SwitchError::Value(&[$($name),*])),
                    },)*
                    _ => return Err(SwitchError::Switch),
                }
                Ok(())
            }
            /// Value of every switch by name, in the order of [`Rules::SWITCHES`].
            pub fn values(&self) -> Vec<(&'static str, &'static str)> {
                vec![$(($id, match self.$field { $($ty::$var => $name),* })),*]
            }
        }
    };
}

/// Why a switch could not be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchError {
    /// No such switch.
    Switch,
    /// The switch has only these values.
    Value(&'static [&'static str]),
}

switches! {
    /// Where a wb leaves `cgwb_tree`.
    tree_out: TreeOut "R-TREE-OUT" {
        /// In `cgwb_kill`.
        Kill = "kill",
        /// In `cgwb_release_workfn`, or by takeover.
        Release = "release",
    }
    /// How a wb is deleted from the tree.
    tree_del: TreeDel "R-TREE-DEL" {
        /// `radix_tree_delete(key)`
        Key = "key",
        /// `radix_tree_delete_item(key, wb)`
        Item = "item",
    }
    /// What `cgroup_writeback_by_id` falls back to.
    look_id: LookId "R-LOOK-ID" {
        /// Nothing: the tree only.
        Tree = "tree",
        /// Any wb of the memcg on `wb_list` with dirty io.
        WbList = "wb-list",
    }
    /// blkcg comparison in `wb_get_lookup`.
    look_blkcg: LookBlkcg "R-LOOK-BLKCG" {
        /// Compare.
        Yes = "yes",
        /// Do not.
        No = "no",
    }
    /// Reference that the creation path's lookup takes.
    create_get: CreateGet "R-CREATE-GET" {
        /// `wb_tryget`
        Tryget = "tryget",
        /// `wb_tryget_live`
        TrygetLive = "tryget-live",
    }
    /// blkcg comparison of the creation path's lookup.
    create_blkcg: CreateBlkcg "R-CREATE-BLKCG" {
        /// Compare (inherited from `wb_get_lookup` or explicit).
        Yes = "yes",
        /// Do not.
        No = "no",
    }
    /// Reference that `wb_get_create_current` takes.
    cur_get: CurGet "R-CUR-GET" {
        /// `wb_tryget`
        Tryget = "tryget",
        /// `wb_tryget_live`
        TrygetLive = "tryget-live",
    }
    /// First locked check of `cgwb_create` for a dying occupant.
    create_pre: CreatePre "R-CREATE-PRE" {
        /// Occupants are live: mismatch is killed, match is found.
        Live = "live",
        /// A dying occupant is ignored.
        SkipDying = "skip-dying",
    }
    /// Occupied slot at publication.
    create_pub: CreatePub "R-CREATE-PUB" {
        /// -EEXIST, look again.
        Exist = "exist",
        /// A dying occupant is replaced.
        Takeover = "takeover",
    }
    /// Kill loop of `cgwb_bdi_unregister`.
    unreg: Unreg "R-UNREG" {
        /// Kill every slot.
        All = "all",
        /// Skip dying slots.
        SkipDying = "skip-dying",
    }
    /// Pages of a foreign flush.
    size: Size "R-SIZE" {
        /// The target memcg's dirty counter.
        Memcg = "memcg",
        /// The wb's own dirty pages.
        Wb = "wb",
    }
    /// Repair of OBS-1: what umount does after the drain of switches in flight.
    umount_flush: UmountFlush "R-UMOUNT-FLUSH" {
        /// Nothing more.
        No = "no",
        /// Flush the root wb's switch work.
        Yes = "yes",
    }
    /// Repair of OBS-2: what a wb_list walker that left RCU does when it returns.
    walk_recheck: WalkRecheck "R-WALK-RECHECK" {
        /// Go on from the pinned wb.
        No = "no",
        /// Stop if the pinned wb is no longer registered.
        Yes = "yes",
    }
}

impl Rules {
    /// Linux 7.3.4.
    pub const fn mainline() -> Rules {
        Rules {
            tree_out: TreeOut::Kill,
            tree_del: TreeDel::Key,
            look_id: LookId::Tree,
            look_blkcg: LookBlkcg::Yes,
            create_get: CreateGet::Tryget,
            create_blkcg: CreateBlkcg::Yes,
            cur_get: CurGet::Tryget,
            create_pre: CreatePre::Live,
            create_pub: CreatePub::Exist,
            unreg: Unreg::All,
            size: Size::Memcg,
            umount_flush: UmountFlush::No,
            walk_recheck: WalkRecheck::No,
        }
    }
    /// First patch of the thread, with the companion change of the flush size.
    pub const fn wb_list() -> Rules {
        Rules { look_id: LookId::WbList, size: Size::Wb, ..Rules::mainline() }
    }
    /// Second patch of the thread, with the companion change of the flush size.
    pub const fn tree_until_release() -> Rules {
        Rules {
            tree_out: TreeOut::Release,
            tree_del: TreeDel::Item,
            look_blkcg: LookBlkcg::No,
            create_get: CreateGet::TrygetLive,
            cur_get: CurGet::TrygetLive,
            create_pre: CreatePre::SkipDying,
            create_pub: CreatePub::Takeover,
            unreg: Unreg::SkipDying,
            size: Size::Wb,
            ..Rules::mainline()
        }
    }
    /// The built-in rule sets by name, in the order in which reports show them.
    pub const BUILT_IN: &'static [(&'static str, Rules)] =
        &[("mainline", Rules::mainline()), ("wb-list", Rules::wb_list()), ("tree-until-release", Rules::tree_until_release())];

    /// A built-in rule set.
    pub fn built_in(name: &str) -> Option<Rules> {
        Rules::BUILT_IN.iter().find(|r| r.0 == name).map(|r| r.1)
    }
}

thread_local! {
    static RULES: Cell<Rules> = const { Cell::new(Rules::mainline()) };
}

/// The rule set in force on this thread.
pub fn rules() -> Rules {
    RULES.with(Cell::get)
}

/// Puts a rule set in force on this thread.
pub fn set_rules(r: Rules) {
    RULES.with(|x| x.set(r));
}
