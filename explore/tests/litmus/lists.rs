//! Lists, lock-less lists and the radix tree.

use crate::rcu::Obj;
use crate::support::{Regs, Shared, sc};
use crate::task;
use wbmodel::sync::{EEXIST, ENOMEM, Fut, ListHead, Llist, NULL, Ptr, kzalloc_nofail, rcu_read_lock};

#[test]
fn entries_come_in_list_order() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            s.a().add_tail(s.head());
            s.b().add_tail(s.head());
            assert_eq!(s.head().entries(), [s.a(), s.b()]);
            s.a().move_tail(s.head());
            assert_eq!(s.head().entries(), [s.b(), s.a()]);
            s.a().del_init();
            assert!(s.a().is_empty());
            assert_eq!(s.head().entries(), [s.b()]);
            s.b().move_to(s.head());
            s.b().del();
            assert!(s.head().is_empty());
        })]
    };
    sc().check(&program, &[""]);
}

#[test]
fn deleting_or_adding_twice_is_corruption() {
    #[track_caller]
    fn fatal(f: fn(Shared)) {
        let program = |s: Shared, r: Regs| {
            vec![task!(s, r, {
                s.a().add(s.head());
                s.b().add(s.head());
                f(s);
            })]
        };
        sc().check(&program, &["Fatal LT-LIST-0"]);
    }
    fatal(|s| {
        s.a().del();
        s.a().del();
    });
    fatal(|s| {
        s.a().del_rcu();
        s.a().del();
    });
    fatal(|s| {
        s.a().add(s.head());
        s.b().del();
    });
    fatal(|s| s.b().add(s.head()));
}

#[test]
fn adding_after_a_deleted_entry_follows_poison() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            s.a().add(s.head());
            s.a().del();
            s.b().add(s.a());
        })]
    };
    sc().check(&program, &["Fatal LT-MEM-0"]);
}

#[test]
fn a_reader_walks_on_from_an_entry_that_was_deleted_for_readers_only() {
    let program = |rcu: bool| {
        move |s: Shared, r: Regs| {
            s.a().add_tail(s.head());
            s.b().add_tail(s.head());
            vec![
                task!(s, r, {
                    let _g = rcu_read_lock();
                    let mut n = 0;
                    let mut e = s.head();
                    loop {
                        e = ListHead(Ptr::from_word(e.next_rcu().await));
                        if e == s.head() {
                            break;
                        }
                        n += 1;
                    }
                    r.set("n", n);
                }),
                task!(s, r, {
                    let _g = s.lock().lock().await;
                    if rcu { s.a().del_rcu() } else { s.a().del() }
                }),
            ]
        }
    };
    sc().check(&program(true), &["n=1", "n=2"]);
    sc().check(&program(false), &["Fatal LT-MEM-0", "n=1", "n=2"]);
}

#[test]
fn splicing_takes_all_entries_in_order() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let other = ListHead(kzalloc_nofail(Obj::TYPE));
            wbmodel::sync::immortal(other.0);
            other.init();
            s.a().add_tail(s.head());
            s.b().add_tail(s.head());
            s.head().splice_tail_init(other);
            assert!(s.head().is_empty());
            assert_eq!(other.entries(), [s.a(), s.b()]);
        })]
    };
    sc().check(&program, &[""]);
}

#[test]
fn exactly_one_push_finds_the_lockless_list_empty() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                r.set("a", i64::from(s.llist().add(s.a().0).await));
            }),
            task!(s, r, {
                r.set("b", i64::from(s.llist().add(s.b().0).await));
            }),
        ]
    };
    sc().check(&program, &["a=0 b=1", "a=1 b=0"]);
}

#[test]
fn taking_all_of_a_lockless_list_loses_and_doubles_nothing() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let was_empty = s.llist().add(s.a().0).await;
                r.set("a", i64::from(was_empty));
            }),
            task!(s, r, {
                s.llist().add(s.b().0).await;
                let mut p = s.llist().del_all().await;
                let mut n = 0;
                while p != NULL {
                    n += 1;
                    p = Llist::next(p);
                }
                r.set("taken", n);
            }),
        ]
    };
    // The other push is either taken too, or comes after and finds the list empty; or before and found it empty.
    sc().check(&program, &["a=0 taken=2", "a=1 taken=1", "a=1 taken=2"]);
}

#[test]
fn the_tree_stores_only_into_empty_slots_and_deletes_only_what_is_named() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let (t, a, b) = (s.tree(), s.a().0, s.b().0);
            assert_eq!((t.insert(2, a), t.insert(2, b), t.insert(3, b)), (0, EEXIST, 0));
            assert_eq!((t.delete_item(2, b), t.lookup(2)), (NULL, a));
            assert_eq!((t.delete_item(2, a), t.lookup(2)), (a, NULL));
            assert_eq!(t.items(), [(3, b)]);
            let slot = t.lookup_slot(3);
            t.replace_slot(slot, a);
            assert_eq!((t.lookup(3), t.lookup_slot(9)), (a, NULL));
            assert_eq!((t.delete(3), t.delete(3)), (a, NULL));
        })]
    };
    sc().check(&program, &[""]);
}

#[test]
fn a_node_that_cannot_be_allocated_is_an_error_of_insert() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let e = s.tree().insert(2, s.a().0);
            assert!(e == 0 || e == ENOMEM);
            r.set("e", e);
            s.tree().delete(2);
        })]
    };
    sc().check(&program, &["e=0"]);
    sc().config(|c| c.ask = vec!["radix_tree_insert"]).check(&program, &["e=-12", "e=0"]);
}

/// A lookup beside the deletion that frees the node.
fn lookup(locked: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        s.tree().insert(2, s.a().0);
        vec![
            task!(s, r, {
                let _g = s.lock().lock_irq().await;
                s.tree().delete(2);
            }),
            task!(s, r, {
                let g = locked.then(rcu_read_lock);
                let p = s.tree().lookup_rcu(2).await;
                r.set("found", i64::from(p == s.a().0));
                drop(g);
            }),
        ]
    }
}

#[test]
fn a_lookup_in_a_read_section_survives_the_end_of_its_node() {
    sc().check(&lookup(true), &["found=0", "found=1"]);
    sc().check(&lookup(false), &["Fatal LT-MEM-1", "found=0", "found=1"]);
}
