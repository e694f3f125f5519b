//! The states of one accumulator in all groups, side by side: fed from columns, and made one with
//! those of a later part of the input. What an input value does to a state says the accumulator
//! itself. Must not know: which accumulators there are.

use super::state::Accumulator;
use crate::Cx;
use crate::columns::Operand;
use model::{Bump, MongoError, Result, Value};
use std::any::Any;

/// An accumulator whose state of the first documents and that of later ones make the state of both.
pub trait Merge: Accumulator + Default + 'static {
    /// Takes over what a state of later documents holds.
    ///
    /// # Errors
    /// The operator's own codes.
    fn merge(&mut self, cx: &Cx<'_, '_>, later: Self) -> Result<()>;
}

/// The states of one field of a `$group`, by the number of the group.
pub trait Many: Send {
    /// Makes room for groups up to this number.
    fn grow(&mut self, groups: usize);

    /// Feeds the value of each row to the group it belongs to; groups are given row by row.
    ///
    /// # Errors
    /// The operator's own codes.
    fn add(&mut self, cx: &Cx<'_, '_>, groups: &[u32], input: &Operand<'_>) -> Result<()>;

    /// Takes over states of later documents: those of its group number `i` go to group `to[i]`.
    ///
    /// # Errors
    /// The operator's own codes.
    fn merge(&mut self, cx: &Cx<'_, '_>, later: Box<dyn Many>, to: &[u32]) -> Result<()>;

    /// The result of a group, in the arena of the context.
    ///
    /// # Errors
    /// The operator's own codes.
    fn finish<'a>(&self, group: usize, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Bytes held by one group.
    fn group_bytes(&self, group: usize) -> usize;

    /// Bytes held by all.
    fn memory_bytes(&self) -> usize;

    /// For [`Many::merge`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// States of one kind.
struct States<A> {
    list: Vec<A>,
    /// What they hold beside themselves.
    heap_bytes: usize,
}

/// No states yet.
pub(super) fn many<A: Merge>() -> Box<dyn Many> {
    Box::new(States::<A> {
        list: Vec::new(),
        heap_bytes: 0,
    })
}

impl<A: Merge> States<A> {
    fn change(&mut self, at: u32, change: impl FnOnce(&mut A) -> Result<()>) -> Result<()> {
        let Some(state) = self.list.get_mut(at as usize) else {
            return Err(MongoError::internal("a group without a state"));
        };
        let before = state.memory_bytes();
        change(state)?;
        self.heap_bytes += state.memory_bytes().saturating_sub(before);
        Ok(())
    }
}

impl<A: Merge> Many for States<A> {
    fn grow(&mut self, groups: usize) {
        if groups > self.list.len() {
            self.list.resize_with(groups, A::default);
        }
    }

    fn add(&mut self, cx: &Cx<'_, '_>, groups: &[u32], input: &Operand<'_>) -> Result<()> {
        let mut arena = Bump::new();
        let builds = matches!(input, Operand::Fields(_));
        for (row, group) in groups.iter().enumerate() {
            self.change(*group, |state| state.add(cx, input.value(row, &arena)))?;
            if builds {
                arena.reset();
            }
        }
        Ok(())
    }

    fn merge(&mut self, cx: &Cx<'_, '_>, later: Box<dyn Many>, to: &[u32]) -> Result<()> {
        let Ok(later) = later.into_any().downcast::<States<A>>() else {
            return Err(MongoError::internal("states of different accumulators"));
        };
        for (state, at) in later.list.into_iter().zip(to) {
            self.change(*at, |own| own.merge(cx, state))?;
        }
        Ok(())
    }

    fn finish<'a>(&self, group: usize, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        match self.list.get(group) {
            Some(state) => state.finish(cx),
            None => Err(MongoError::internal("a group without a state")),
        }
    }

    fn group_bytes(&self, group: usize) -> usize {
        self.list.get(group).map_or(0, Accumulator::memory_bytes)
    }

    fn memory_bytes(&self) -> usize {
        self.list.capacity() * size_of::<A>() + self.heap_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
