//! What an operator may know besides its arguments: the arena for results, the current document, variables, collation,
//! the operation's fixed time and its randomness.

use model::{Bump, Collate, Doc, OwnedValue, Result, Timestamp, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is fixed for one operation (one command).
pub struct Env {
    /// `$$NOW`, milliseconds since the epoch; the same throughout the operation.
    pub now_ms: i64,
    /// `$$NOW` may be used; some commands have no time of their own.
    pub has_now: bool,
    /// `$$CLUSTER_TIME`, where the server has one.
    pub cluster_time: Option<Timestamp>,
    /// The operation's collation; `None` is the simple binary order.
    pub collation: Option<Arc<dyn Collate>>,
    /// Values of the command's `let`, by name.
    pub let_vars: Vec<(String, OwnedValue)>,
    /// Seed of the operation's randomness, advanced by each draw.
    random_state: AtomicU64,
    /// Asked now and then by loops that may run long; an error ends the operation (maxTimeMS, killOp).
    pub interrupt: Option<Box<dyn Fn() -> Result<()> + Send + Sync>>,
}

impl Env {
    /// An environment at a time, with a seed.
    pub fn new(now_ms: i64, seed: u64) -> Env {
        Env {
            now_ms,
            has_now: true,
            cluster_time: None,
            collation: None,
            let_vars: Vec::new(),
            random_state: AtomicU64::new(seed | 1),
            interrupt: None,
        }
    }

    /// The collation as the comparison functions take it.
    pub fn collate(&self) -> Option<&dyn Collate> {
        self.collation.as_deref()
    }

    /// Uniform 64 bits (splitmix64: statistical quality is enough for `$rand` and `$sample`).
    pub fn random_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.random_state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn random_f64(&self) -> f64 {
        (self.random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Ends the operation with an error when it was killed or ran out of time.
    ///
    /// # Errors
    /// What the interrupt says: 50 MaxTimeMSExpired, 11601 Interrupted.
    pub fn check_interrupt(&self) -> Result<()> {
        self.interrupt.as_ref().map_or(Ok(()), |f| f())
    }
}

/// Number of a variable, given at parse time.
pub type VarId = u32;

/// One bound variable; frames chain outward.
pub struct Frame<'s, 'a> {
    /// Which variable.
    pub id: VarId,
    /// Its value.
    pub value: Value<'a>,
    /// The frame around this one.
    pub outer: Option<&'s Frame<'s, 'a>>,
}

/// The context of one evaluation. Copy: binding a variable makes a new one on the stack.
#[derive(Clone, Copy)]
pub struct Cx<'s, 'a> {
    /// Where results that need bytes are made.
    pub arena: &'a Bump,
    /// `$$ROOT`: usually the document being worked on.
    pub root: Value<'a>,
    /// Bound variables, innermost first.
    pub vars: Option<&'s Frame<'s, 'a>>,
    /// The operation.
    pub env: &'s Env,
    /// Metadata of the document (`$meta`), a field per name.
    pub meta: Option<Doc<'a>>,
}

impl<'s, 'a> Cx<'s, 'a> {
    /// A context without variables.
    pub fn new(arena: &'a Bump, root: Value<'a>, env: &'s Env) -> Cx<'s, 'a> {
        Cx { arena, root, vars: None, env, meta: None }
    }

    /// The value of a variable; `Missing` when it is not bound (the parser refuses unknown names).
    pub fn var(&self, id: VarId) -> Value<'a> {
        let mut frame = self.vars;
        while let Some(f) = frame {
            if f.id == id {
                return f.value;
            }
            frame = f.outer;
        }
        Value::Missing
    }

    /// The same context with the variables of `frame`.
    pub fn with<'t>(&self, frame: &'t Frame<'t, 'a>) -> Cx<'t, 'a>
    where
        's: 't,
    {
        Cx { arena: self.arena, root: self.root, vars: Some(frame), env: self.env, meta: self.meta }
    }

    /// The operation's collation.
    pub fn collate(&self) -> Option<&'s dyn Collate> {
        self.env.collate()
    }
}
