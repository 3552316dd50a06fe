//! What a few profiling executions tell about the program: how long it is, who does how much, on which shared objects.

use std::collections::HashMap;
use wbmodel::sync::{Machine, Ptr, TaskName};

/// Counts of one task.
#[derive(Clone, Default, Debug)]
struct Counts {
    steps: u32,
    /// Steps of it and of everything it started, directly or not.
    total: u32,
    parent: Option<TaskName>,
}

/// Facts about the program, gathered before sampling.
#[derive(Clone, Default, Debug)]
pub struct Profile {
    choice_points: u32,
    tasks: HashMap<TaskName, Counts>,
    objects: HashMap<Ptr, HashMap<TaskName, u32>>,
    /// Objects that two or more tasks operate on, in ascending order.
    shared: Vec<Ptr>,
    // The execution under way.
    now_points: u32,
    now_tasks: HashMap<TaskName, Counts>,
    now_objects: HashMap<(Ptr, TaskName), u32>,
    name: TaskName,
    alive: u64,
}

impl Profile {
    /// Largest number of points with a choice that an execution has had.
    pub fn choice_points(&self) -> u32 {
        self.choice_points
    }
    /// Most steps that the task was seen to take.
    pub fn steps(&self, t: TaskName) -> u32 {
        self.tasks.get(&t).map_or(1, |c| c.steps)
    }
    /// The same with the steps of everything it starts.
    pub fn total(&self, t: TaskName) -> u32 {
        self.tasks.get(&t).map_or(1, |c| c.total)
    }
    /// Who was seen to start the task.
    pub fn parent(&self, t: TaskName) -> Option<TaskName> {
        self.tasks.get(&t).and_then(|c| c.parent)
    }
    /// Objects that two or more tasks operate on, in ascending order.
    pub fn shared(&self) -> &[Ptr] {
        &self.shared
    }
    /// How often the task operates on the object.
    pub fn ops_on(&self, obj: Ptr, t: TaskName) -> u32 {
        self.objects.get(&obj).and_then(|o| o.get(&t)).copied().unwrap_or(0)
    }

    pub(super) fn begin(&mut self) {
        self.now_points = 0;
        self.now_tasks.clear();
        self.now_objects.clear();
        self.alive = u64::MAX;
    }

    pub(super) fn choice_point(&mut self) {
        self.now_points += 1;
    }

    pub(super) fn step(&mut self, m: &Machine, s: usize) {
        if self.alive == u64::MAX {
            self.alive = live(m);
        }
        let t = &m.tasks[s];
        self.name = t.name;
        self.now_tasks.entry(t.name).or_default().steps += 1;
        *self.now_objects.entry((t.pending.obj, t.name)).or_default() += 1;
    }

    pub(super) fn stepped(&mut self, m: &Machine, s: usize) {
        let now = live(m);
        let mut new = now & !(self.alive & !(1 << s));
        if m.tasks[s].name == self.name {
            new &= !(1 << s);
        }
        for c in super::bits(new) {
            self.now_tasks.entry(m.tasks[c].name).or_default().parent = Some(self.name);
        }
        self.alive = now;
    }

    pub(super) fn end(&mut self) {
        self.choice_points = self.choice_points.max(self.now_points);
        for (&t, c) in &self.now_tasks {
            let known = self.tasks.entry(t).or_default();
            known.steps = known.steps.max(c.steps);
            known.parent = known.parent.or(c.parent);
        }
        for (&(obj, t), &n) in &self.now_objects {
            let known = self.objects.entry(obj).or_default().entry(t).or_default();
            *known = (*known).max(n);
        }
        let own: Vec<(TaskName, u32)> = self.tasks.iter().map(|(&t, c)| (t, c.steps)).collect();
        self.tasks.values_mut().for_each(|c| c.total = 0);
        for (t, n) in own {
            let mut up = Some(t);
            // A bound on the depth keeps odd parentage, seen in different executions, from turning in circles.
            for _ in 0..64 {
                let Some(c) = up.and_then(|u| self.tasks.get_mut(&u)) else { break };
                c.total += n;
                up = c.parent;
            }
        }
        self.shared = self.objects.iter().filter(|(p, o)| !p.is_null() && o.len() > 1).map(|(&p, _)| p).collect();
        self.shared.sort_unstable();
    }
}

fn live(m: &Machine) -> u64 {
    m.tasks.iter().enumerate().filter(|(_, t)| t.live).fold(0, |mask, (s, _)| mask | 1 << s)
}
