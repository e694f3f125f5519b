//! Checks whether a server may produce a history: each document linearizable, transactions under
//! snapshot isolation, both in real time. The rules are those of `tests/server/isolation.py`. Must
//! not know: servers, how a history was made.
//!
//! Each key has a list. Values are appended, each only once per key, and lists are read whole. So
//! the last state gives the order of a key's values, and that order gives the dependencies: `ww`
//! from the writer of the previous value, `wr` from the writer of a value to its reader, `rw` from
//! a reader to the writer of the next value; and an action that ended before another began is
//! before it. Snapshot isolation forbids every cycle without two adjacent `rw` (Adya 1999, Cerone
//! and Gotsman 2018).

use std::collections::HashMap;

pub(crate) type Key = i64;
pub(crate) type Value = i64;

#[derive(Clone, Debug)]
pub(crate) enum TransactionOp {
    Append(Key, Value),
    Read(Key, Vec<Value>),
}

/// An atomic unit: a transaction that was committed or aborted, or one step alone.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) steps: Vec<TransactionOp>,
    pub(crate) committed: bool,
    /// Its client does not know whether it was committed.
    pub(crate) unknown: bool,
    /// The log time up to which it had to see everything.
    pub(crate) after: Option<(u64, u64)>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

impl Action {
    pub(crate) fn appends(&self) -> impl Iterator<Item = (Key, Value)> + '_ {
        self.steps.iter().filter_map(|s| match s {
            TransactionOp::Append(key, value) => Some((*key, *value)),
            TransactionOp::Read(..) => None,
        })
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = (Key, &[Value])> + '_ {
        self.steps.iter().filter_map(|s| match s {
            TransactionOp::Append(..) => None,
            TransactionOp::Read(key, list) => Some((*key, list.as_slice())),
        })
    }

    /// The part of a read that other actions wrote.
    fn foreign<'a>(&self, key: Key, list: &'a [Value]) -> &'a [Value] {
        let own = |v: &Value| self.appends().any(|(k, mine)| k == key && mine == *v);
        let before = list.iter().position(own).unwrap_or(list.len());
        &list[..before]
    }
}

/// Decides by the last state whether actions with unknown outcome were committed.
pub(crate) fn resolve(
    actions: &mut [Action],
    last: &HashMap<Key, Vec<Value>>,
) -> Result<(), String> {
    for action in actions.iter_mut().filter(|a| a.unknown) {
        let there = |(k, v): &(Key, Value)| last.get(k).is_some_and(|list| list.contains(v));
        let (all, found) = (
            action.appends().count(),
            action.appends().filter(there).count(),
        );
        if found > 0 && found < all {
            return Err(format!("part of an action: {action:?}"));
        }
        // The time of its commit is unknown.
        (action.committed, action.ended) = (found > 0, u64::MAX);
    }
    Ok(())
}

/// The first violation, if there is any. `last` is the final state, after all changes.
pub(crate) fn check(history: &[Action], last: &HashMap<Key, Vec<Value>>) -> Result<(), String> {
    let mut writers = HashMap::new();
    for (n, action) in history.iter().enumerate() {
        check_transaction(action)?;
        for written in action.appends() {
            if writers.insert(written, n).is_some() {
                return Err(format!("the history gives {written:?} twice"));
            }
        }
    }
    states(history, last, &writers)?;
    order(history, last, &writers)
}

/// Checks the reads within a transaction: its reads of a key agree, and end with its own appends.
fn check_transaction(action: &Action) -> Result<(), String> {
    let mut own: HashMap<Key, Vec<Value>> = HashMap::new();
    let mut seen: HashMap<Key, &[Value]> = HashMap::new();
    for step in &action.steps {
        match step {
            TransactionOp::Append(key, value) => own.entry(*key).or_default().push(*value),
            TransactionOp::Read(key, list) => {
                let mine = own.get(key).map_or(&[][..], Vec::as_slice);
                let Some(before) = list.strip_suffix(mine) else {
                    return Err(format!("own write missing: {key} in {action:?}"));
                };
                if *seen.entry(*key).or_insert(before) != before {
                    return Err(format!("non-repeatable read: {key} in {action:?}"));
                }
            }
        }
    }
    Ok(())
}

/// Checks that the final state has each committed append once, and nothing else; that reads saw
/// prefixes of it, and no transaction in part.
fn states(
    history: &[Action],
    last: &HashMap<Key, Vec<Value>>,
    writers: &HashMap<(Key, Value), usize>,
) -> Result<(), String> {
    let mut there = HashMap::new();
    for (key, list) in last {
        for value in list {
            match writers.get(&(*key, *value)).map(|n| &history[*n]) {
                None => return Err(format!("nobody has appended {value} to {key}")),
                Some(of) if !of.committed => {
                    return Err(format!("{value} of {key} is there, of {of:?}"));
                }
                Some(_) => {}
            }
            if there.insert((*key, *value), ()).is_some() {
                return Err(format!("written twice: {value} is twice in {key}"));
            }
        }
    }
    for action in history.iter().filter(|a| a.committed) {
        if let Some(lost) = action.appends().find(|a| !there.contains_key(a)) {
            return Err(format!("lost write: {lost:?} of {action:?}"));
        }
        for (key, list) in action.reads() {
            let all = last.get(&key).map_or(&[][..], Vec::as_slice);
            if !all.starts_with(list) {
                return Err(format!(
                    "reads do not agree: {key} is {all:?}, in {action:?}"
                ));
            }
            let foreign = action.foreign(key, list);
            let writer = foreign.last().and_then(|v| writers.get(&(key, *v)));
            let of = writer.map(|n| &history[*n]);
            let ends = of.and_then(|of| of.appends().filter(|(k, _)| *k == key).last());
            if ends.is_some_and(|(_, v)| Some(&v) != foreign.last()) {
                return Err(format!("intermediate read: {key} of {of:?} in {action:?}"));
            }
        }
    }
    Ok(())
}

/// The order of actions; an action has two nodes, because it matters whether it was reached by an
/// `rw`.
struct Graph {
    next: Vec<Vec<usize>>,
}

impl Graph {
    fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.next[2 * from].push(2 * to);
            self.next[2 * from + 1].push(2 * to);
        }
    }

    /// The first action has read the state before the second one's write.
    fn add_read(&mut self, from: usize, to: usize) {
        if from != to {
            self.next[2 * from].push(2 * to + 1);
        }
    }

    /// Actions on cycles or after them; empty if there is no cycle.
    fn cyclic(&self) -> Vec<usize> {
        let mut before = vec![0usize; self.next.len()];
        for to in self.next.iter().flatten() {
            before[*to] += 1;
        }
        let mut free: Vec<usize> = (0..before.len()).filter(|n| before[*n] == 0).collect();
        while let Some(n) = free.pop() {
            for to in &self.next[n] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        let mut left: Vec<usize> = (0..before.len()).filter(|n| before[*n] > 0).collect();
        // Actions after a cycle do not lead back into it: remove them.
        loop {
            let n = left.len();
            let stays = |n: &usize| self.next[*n].iter().any(|to| left.contains(to));
            let kept: Vec<usize> = left.iter().copied().filter(stays).collect();
            left = kept;
            if left.len() == n {
                break;
            }
        }
        left.iter_mut().for_each(|n| *n /= 2);
        left.dedup();
        left
    }
}

fn order(
    history: &[Action],
    last: &HashMap<Key, Vec<Value>>,
    writers: &HashMap<(Key, Value), usize>,
) -> Result<(), String> {
    let mut graph = Graph {
        next: vec![Vec::new(); 2 * history.len()],
    };
    for (key, list) in last {
        let by: Vec<usize> = list.iter().map(|v| writers[&(*key, *v)]).collect();
        by.windows(2).for_each(|w| graph.add(w[0], w[1]));
    }
    for (n, action) in history.iter().enumerate().filter(|(_, a)| a.committed) {
        for (key, list) in action.reads() {
            let all = &last[&key];
            let foreign = action.foreign(key, list);
            if let Some(value) = foreign.last() {
                graph.add(writers[&(key, *value)], n);
            }
            let own = |v: &&Value| action.appends().any(|a| a == (key, **v));
            if let Some(value) = all[foreign.len()..].iter().find(|v| !own(v)) {
                graph.add_read(n, writers[&(key, *value)]);
            }
        }
        let later = |(_, b): &(usize, &Action)| b.committed && action.ended < b.began;
        for (m, _) in history.iter().enumerate().filter(later) {
            graph.add(n, m);
        }
    }
    match graph.cyclic() {
        none if none.is_empty() => Ok(()),
        cycle => {
            let actions: Vec<String> = cycle.iter().map(|n| format!("{:?}", history[*n])).collect();
            Err(format!(
                "each is before the next one:\n{}",
                actions.join("\n")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(began: u64, ended: u64, steps: &[TransactionOp]) -> Action {
        Action {
            steps: steps.to_vec(),
            committed: true,
            unknown: false,
            after: None,
            began,
            ended,
        }
    }

    fn verdict(history: &[Action], last: &[(Key, &[Value])]) -> String {
        let last = last.iter().map(|(k, v)| (*k, v.to_vec())).collect();
        check(history, &last).err().unwrap_or_default()
    }

    use TransactionOp::{Append, Read};

    #[test]
    fn what_is_allowed_is_found_right() {
        let one = action(1, 4, &[Append(1, 1)]);
        for seen in [vec![], vec![1]] {
            let beside = action(2, 3, &[Read(1, seen)]);
            assert_eq!(verdict(&[one.clone(), beside], &[(1, &[1])]), "");
        }
        // Snapshot isolation allows write skew.
        let a = action(1, 4, &[Read(2, vec![]), Append(1, 1)]);
        let b = action(2, 3, &[Read(1, vec![]), Append(2, 2)]);
        assert_eq!(verdict(&[a, b], &[(1, &[1]), (2, &[2])]), "");
    }

    #[test]
    fn each_anomaly_is_found() {
        let write = action(1, 2, &[Append(1, 1), Append(2, 2)]);
        let both: &[(Key, &[Value])] = &[(1, &[1]), (2, &[2])];
        let found = |history: &[Action], last, what: &str| {
            let verdict = verdict(history, last);
            assert!(verdict.contains(what), "{what}: {verdict}");
        };
        let w = || write.clone();
        found(&[w(), action(3, 4, &[Read(1, vec![])])], both, "each is");
        let part = action(1, 4, &[Read(1, vec![1]), Read(2, vec![])]);
        found(&[w(), part], both, "each is before");
        found(&[w()], &[(1, &[1]), (2, &[])], "lost write");
        found(&[w()], &[(1, &[1, 1]), (2, &[2])], "written twice");
        found(&[w()], &[(1, &[1, 7]), (2, &[2])], "nobody");
        let failed = Action {
            committed: false,
            ..w()
        };
        found(&[failed], both, "is there, of");
        let own = action(1, 2, &[Append(1, 1), Read(1, vec![])]);
        found(&[own], &[(1, &[1])], "own write missing");
        let twice = action(1, 9, &[Read(1, vec![]), Read(1, vec![1])]);
        found(&[w(), twice], both, "non-repeatable");
        let half = action(1, 9, &[Read(1, vec![1])]);
        let two = action(1, 2, &[Append(1, 1), Append(1, 2)]);
        found(&[two, half], &[(1, &[1, 2])], "intermediate");
        // Both have read the state before either wrote: a lost update.
        let a = action(1, 4, &[Read(1, vec![]), Append(1, 1)]);
        let b = action(2, 3, &[Read(1, vec![]), Append(1, 2)]);
        found(&[a, b], &[(1, &[1, 2])], "each is before");
    }
}
