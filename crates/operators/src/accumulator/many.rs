//! The states of one accumulator in all groups, side by side: fed from columns, and merged with the
//! states of a later part of the input. The accumulator itself decides how an input value changes a
//! state. Must not know: which accumulators there are.

use super::state::Accumulator;
use crate::Cx;
use crate::columns::Operand;
use model::{Bump, MongoError, Result, Value};
use std::any::Any;

/// An accumulator whose states of earlier and of later documents can be merged.
pub trait Merge: Accumulator + Default + 'static {
    /// Merges a state of later documents into this one.
    ///
    /// # Errors
    /// The operator's own codes.
    fn merge(&mut self, cx: &Cx<'_, '_>, later: Self) -> Result<()>;
}

/// The states of one field of a `$group`, indexed by the number of the group.
pub trait GroupAccumulator: Send {
    /// Adds states until there are this many groups.
    fn grow(&mut self, groups: usize);

    /// Adds the value of each row to the group it belongs to; `groups` has one number per row.
    ///
    /// # Errors
    /// The operator's own codes.
    fn add(&mut self, cx: &Cx<'_, '_>, groups: &[u32], input: &Operand<'_>) -> Result<()>;

    /// Merges states of later documents: the state of their group `i` is merged into group `to[i]`.
    ///
    /// # Errors
    /// The operator's own codes.
    fn merge(
        &mut self,
        cx: &Cx<'_, '_>,
        later: Box<dyn GroupAccumulator>,
        to: &[u32],
    ) -> Result<()>;

    /// The result of a group, in the arena of the context.
    ///
    /// # Errors
    /// The operator's own codes.
    fn finish<'a>(&self, group: usize, cx: &Cx<'_, 'a>) -> Result<Value<'a>>;

    /// Bytes held by one group.
    fn group_bytes(&self, group: usize) -> usize;

    /// Bytes held by all groups.
    fn memory_bytes(&self) -> usize;

    /// Needed by [`GroupAccumulator::merge`].
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// States of one kind.
struct States<A> {
    list: Vec<A>,
    /// Bytes that the states hold outside of this vector.
    heap_bytes: usize,
}

/// An empty list of states.
pub(super) fn new_states<A: Merge>() -> Box<dyn GroupAccumulator> {
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

impl<A: Merge> GroupAccumulator for States<A> {
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

    fn merge(
        &mut self,
        cx: &Cx<'_, '_>,
        later: Box<dyn GroupAccumulator>,
        to: &[u32],
    ) -> Result<()> {
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
