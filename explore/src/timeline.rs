//! What happened in an execution, in the words of the kernel: for reports, replays and comparisons.
//!
//! Main type: [`Timeline`], one row a committed operation. Reads the machine after the execution; renders nothing.

use std::collections::HashMap;
use wbmodel::sync::{Kind, Machine, Ptr, TaskName, Tp};

/// Words for an operation on an object.
pub fn op_text(m: &Machine, kind: Kind, obj: Ptr) -> String {
    let o = if obj.is_null() { String::new() } else { m.mem.name(obj) };
    match kind {
        Kind::Start => "start".into(),
        Kind::WorkBegin => format!("run work {o}"),
        Kind::TimerFire => format!("timer fires for {o}"),
        Kind::RcuCallback => format!("RCU callback of {o}"),
        Kind::Load => format!("read {o}"),
        Kind::Store => format!("write {o}"),
        Kind::Add => format!("add to {o}"),
        Kind::Or => format!("set bits of {o}"),
        Kind::And => format!("clear bits of {o}"),
        Kind::Xchg => format!("xchg({o})"),
        Kind::Cmpxchg => format!("cmpxchg({o})"),
        Kind::AddUnless => format!("add_unless({o})"),
        Kind::SpinLock => format!("spin_lock({o})"),
        Kind::SpinUnlock => format!("spin_unlock({o})"),
        Kind::MutexLock => format!("mutex_lock({o})"),
        Kind::MutexUnlock => format!("mutex_unlock({o})"),
        Kind::DownRead => format!("down_read({o})"),
        Kind::DownReadTrylock => format!("down_read_trylock({o})"),
        Kind::DownWrite => format!("down_write({o})"),
        Kind::Up | Kind::UpNow => format!("up({o})"),
        Kind::GpBegin => "synchronize_rcu() begins".into(),
        Kind::GpEnd => "synchronize_rcu() ends".into(),
        Kind::QueueWork => format!("queue_work({o})"),
        Kind::FlushBegin => format!("flush_work({o}) begins"),
        Kind::FlushWait => format!("flush_work({o}) ends"),
        Kind::PrepareWait => format!("prepare_to_wait, read {o}"),
        Kind::Sleep => "schedule()".into(),
        Kind::WakeAll => format!("wake_up_all({o})"),
        Kind::Yield => "cond_resched()".into(),
        Kind::Fence => "memory barrier".into(),
        Kind::Join => "join".into(),
        Kind::RcuEnter => "rcu_read_lock()".into(),
        Kind::RcuExit => "rcu_read_unlock()".into(),
        Kind::CallRcu => format!("call_rcu({o})"),
        Kind::WorkEnd => format!("work {o} ends"),
        Kind::Exit => "end".into(),
        Kind::Alloc => format!("kzalloc() = {o}"),
        Kind::Free => format!("kfree({o})"),
        Kind::Choice => "choice".into(),
        Kind::Trace => format!("note {o}"),
    }
}

/// A word that a cell may hold: the object it points to, or the number.
fn word(m: &Machine, v: u64) -> String {
    if (0x1_0000..1 << 32).contains(&v) {
        let p = Ptr::from_word(v);
        if m.mem.alloc_of(p).is_some() {
            return m.mem.name(p);
        }
    }
    match v as i64 {
        i if (-4096..0).contains(&i) => i.to_string(),
        _ if v > 0xffff => format!("{v:#x}"),
        _ => v.to_string(),
    }
}

/// One committed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of the event.
    pub event: u32,
    /// Scheduling steps up to and with this one.
    pub step: u32,
    /// Index in [`Timeline::tasks`].
    pub task: usize,
    /// Innermost kernel function.
    pub func: Option<&'static str>,
    /// What it did.
    pub text: String,
    /// A scheduling point: another task may have run just before.
    pub is_step: bool,
    /// What a reader needs to follow the story: everything but entries, exits and bookkeeping.
    pub visible: bool,
}

/// An execution, operation by operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Labels of tasks in the order in which they first ran.
    pub tasks: Vec<String>,
    /// Operations in order.
    pub rows: Vec<Row>,
    /// Scheduling steps.
    pub steps: u32,
}

impl Timeline {
    /// Reads the execution that the machine holds; `labels` are those of the tasks that ran.
    pub fn of(m: &Machine, labels: &HashMap<TaskName, String>) -> Timeline {
        let mut t = Timeline::default();
        let mut columns: Vec<TaskName> = Vec::new();
        for (i, e) in m.log.iter().enumerate() {
            let Some(label) = labels.get(&e.task) else { continue };
            let task = columns.iter().position(|&n| n == e.task).unwrap_or_else(|| {
                columns.push(e.task);
                t.tasks.push(label.clone());
                columns.len() - 1
            });
            let is_step = !immediate(e.kind);
            t.steps += u32::from(is_step);
            let mut text = op_text(m, e.kind, e.obj);
            match e.kind {
                Kind::Load | Kind::PrepareWait => text += &format!(" = {}", word(m, e.val)),
                Kind::Store => text += &format!(" = {}", word(m, e.val)),
                Kind::Add | Kind::Or | Kind::And | Kind::Xchg | Kind::Cmpxchg | Kind::AddUnless => text += &format!(", was {}", word(m, e.val)),
                Kind::QueueWork if e.val == 0 => text += ", already pending",
                Kind::DownReadTrylock => text += if e.val == 1 { " succeeds" } else { " fails" },
                Kind::Choice => text += &format!(" answered {}", e.val),
                Kind::Trace => text = trace_text(m, e.tp, e.obj, e.val),
                _ => {}
            }
            let visible = match e.kind {
                Kind::Trace => matches!(e.tp, Tp::OpBegin | Tp::OpEnd | Tp::Call | Tp::Return | Tp::Mark),
                Kind::Choice => e.val != 0,
                Kind::RcuEnter | Kind::RcuExit | Kind::Start | Kind::WorkEnd | Kind::Yield => false,
                _ => true,
            };
            t.rows.push(Row { event: i as u32, step: t.steps, task, func: e.func.map(|f| f.name), text, is_step, visible });
        }
        t
    }

    /// Index of the row at or after which event `at` stands.
    pub fn row_at(&self, at: u32) -> Option<usize> {
        self.rows.iter().rposition(|r| r.event <= at)
    }

    /// The execution as text, one line an operation: equal executions have equal text.
    pub fn to_text(&self) -> String {
        let mut s = String::new();
        for r in &self.rows {
            s += &format!("{} {} {}: {}\n", r.step, self.tasks[r.task], r.func.unwrap_or("-"), r.text);
        }
        s
    }
}

fn immediate(k: Kind) -> bool {
    use Kind::*;
    matches!(k, SpinUnlock | MutexUnlock | UpNow | RcuEnter | RcuExit | CallRcu | WorkEnd | Exit | Alloc | Free | Choice | Trace)
}

fn trace_text(m: &Machine, tp: Tp, obj: Ptr, val: u64) -> String {
    let o = m.mem.name(obj);
    match tp {
        Tp::OpBegin => format!("operation {} begins", val.wrapping_add(1)),
        Tp::OpEnd => format!("operation ends: {}", word(m, val)),
        Tp::Call => format!("called with {o}, {}", word(m, val)),
        Tp::Return => format!("returns {o}, {}", word(m, val)),
        Tp::Css => format!("css {o} reaches state {val}"),
        Tp::Mark => format!("mark {val}"),
        Tp::WritePages => format!("{val} pages of {o} submitted"),
        Tp::Kept => format!("{o} {}", if val == 1 { "kept by the case" } else { "given back by the case" }),
        Tp::DirtyPages => format!("{val} pages of {o} dirtied"),
        Tp::Note => format!("{o}: {}", word(m, val)),
    }
}
