//! What an operator may use besides its arguments: the arena for results, the current document,
//! variables, the collation, and the fixed time and the randomness of the operation.

use crate::Profile;
use crate::script::{self, Call};
use model::{
    Array, Bump, Collate, Doc, DocBuf, MongoError, OwnedValue, Result, Timestamp, Value, bail, code,
};
use operation::Operation;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Units of work between two checks of the interrupt: some tenths of a millisecond.
const WORK_BETWEEN_CHECKS: usize = 1 << 14;
/// Most bytes of one intermediate value; MongoDB's limit for `$map`, `$filter`, `$reduce` and
/// `$range`.
const VALUE_BYTES_MAX: usize = 100 << 20;
/// Bytes of memory for a list of the values of an array, per byte of the array: an element has at
/// least eight bytes.
pub(crate) const VALUE_BYTES_PER_BYTE: usize = 5;
/// Most bytes of constants folded from expressions; further expressions are not folded.
const FOLDED_BYTES_MAX: usize = 128 << 20;
/// Most bytes of all values made for one document.
const EVALUATION_BYTES_MAX: usize = 256 << 20;

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
    /// State of the operation's random number generator, advanced by each draw.
    random_state: AtomicU64,
    /// Bytes of constants folded from expressions.
    folded_bytes: AtomicUsize,
    /// Work done since the last check of the interrupt; see [`Env::work`].
    work: AtomicUsize,
    /// The running operation, checked now and then by loops that may run long: its error
    /// (maxTimeMS, killOp, memory) ends the loop. It also counts what is read.
    pub operation: Option<Arc<Operation>>,
    /// Runs JavaScript; `None` where it is switched off.
    pub scripts: Option<Arc<dyn Scripts>>,
    /// Global variables of scripts (`scope` of mapReduce).
    pub script_scope: Option<DocBuf>,
    /// Stored functions and values for scripts, by name; a script may redefine them for itself.
    pub script_library: Option<DocBuf>,
    /// The release of MongoDB whose behavior is followed.
    pub profile: Profile,
    /// A query that finds no index for its filter is refused (`notablescan`).
    pub refuses_scans: bool,
    /// Distinguishes the scripts of this operation from those of others.
    pub id: u64,
}

/// An engine that runs scripts.
pub trait Scripts: Send + Sync {
    /// Calls a function and returns the requested result, in the arena of `cx`.
    ///
    /// # Errors
    /// 139 JSInterpreterFailure when the function does not compile, throws, recurses too deep or
    /// needs too much memory; 11601 Interrupted when it takes too long; 31220 / 31292 of `emit`;
    /// the errors of the interrupt.
    fn call<'a>(&self, cx: &Cx<'_, 'a>, call: &Call<'_, '_>) -> Result<Value<'a>>;

    /// Drops the state that the scripts of an operation left on this thread.
    fn end(&self, operation: u64);
}

impl Drop for Env {
    fn drop(&mut self) {
        self.end_scripts();
    }
}

impl Env {
    /// An environment with a time and a random seed.
    pub fn new(now_ms: i64, seed: u64) -> Env {
        Env {
            now_ms,
            has_now: true,
            cluster_time: None,
            collation: None,
            let_vars: Vec::new(),
            random_state: AtomicU64::new(seed | 1),
            folded_bytes: AtomicUsize::new(0),
            work: AtomicUsize::new(0),
            operation: None,
            scripts: None,
            script_scope: None,
            script_library: None,
            profile: Profile::default(),
            refuses_scans: false,
            id: script::next_id(),
        }
    }

    /// Drops the state of this operation's scripts on this thread: at the end, and when a cursor is
    /// parked.
    pub fn end_scripts(&self) {
        if let Some(scripts) = &self.scripts {
            scripts.end(self.id);
        }
    }

    /// The JavaScript engine.
    ///
    /// # Errors
    /// 31264 when there is no engine.
    pub fn scripts(&self) -> Result<&dyn Scripts> {
        self.scripts.as_deref().ok_or_else(|| {
            MongoError::new(
                31264,
                "Cannot run server-side javascript without the javascript engine enabled",
            )
        })
    }

    /// The collation as the comparison functions take it.
    pub fn collate(&self) -> Option<&dyn Collate> {
        self.collation.as_deref()
    }

    /// Uniform 64 bits (splitmix64: statistical quality is enough for `$rand` and `$sample`).
    pub fn random_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self
            .random_state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn random_f64(&self) -> f64 {
        (self.random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Ends the operation with an error when it was killed, ran out of time, or holds too much
    /// memory.
    ///
    /// # Errors
    /// The errors of the interrupt: 50 MaxTimeMSExpired, 11601 Interrupted, 146
    /// ExceededMemoryLimit.
    pub fn check_interrupt(&self) -> Result<()> {
        self.operation.as_ref().map_or(Ok(()), |op| op.check())
    }

    /// To be called before `bytes` are allocated at once.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit.
    #[inline]
    pub fn room_for(&self, bytes: usize) -> Result<()> {
        match &self.operation {
            Some(operation) => operation.memory().room_for(bytes),
            None => Ok(()),
        }
    }

    /// True when the operation holds so much memory that a stage that can use temporary files
    /// should do so now.
    pub fn is_short_of_memory(&self) -> bool {
        self.operation
            .as_ref()
            .is_some_and(|op| op.memory().is_short())
    }

    /// Counts the bytes of a constant folded from an expression.
    pub(crate) fn fold(&self, bytes: usize) {
        self.folded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// True when no more expressions are to be folded into constants.
    pub(crate) fn has_folded_enough(&self) -> bool {
        self.folded_bytes.load(Ordering::Relaxed) > FOLDED_BYTES_MAX
    }

    /// Counts work, in units of about ten nanoseconds, and checks the interrupt after enough of it.
    /// Loops need this when a single step may take long, so that counting steps does not bound
    /// their time.
    ///
    /// # Errors
    /// The errors of the interrupt.
    #[inline]
    pub fn work(&self, units: usize) -> Result<()> {
        // A lost update between threads only delays the next check.
        let done = self.work.load(Ordering::Relaxed).saturating_add(units);
        if done < WORK_BETWEEN_CHECKS {
            self.work.store(done, Ordering::Relaxed);
            return Ok(());
        }
        self.work.store(0, Ordering::Relaxed);
        self.check_interrupt()
    }
}

/// Work counted for parsing one node of a filter, an expression or an update. Nodes have some
/// hundred bytes, so memory is checked every few megabytes.
pub(crate) const NODE_WORK: usize = 1;

/// Number of a variable, given at parse time.
pub type VarId = u32;

/// One bound variable; frames chain outward.
pub struct Frame<'s, 'a> {
    /// The variable's number.
    pub id: VarId,
    /// Its value.
    pub value: Value<'a>,
    /// The frame around this one.
    pub outer: Option<&'s Frame<'s, 'a>>,
}

/// The context of one evaluation. Copy: binding a variable makes a new one on the stack.
#[derive(Clone, Copy)]
pub struct Cx<'s, 'a> {
    /// The arena for results that need bytes.
    pub arena: &'a Bump,
    /// `$$ROOT`: usually the document being processed.
    pub root: Value<'a>,
    /// Bound variables, innermost first.
    pub vars: Option<&'s Frame<'s, 'a>>,
    /// The operation.
    pub env: &'s Env,
    /// Metadata of the document (`$meta`), one field per name.
    pub meta: Option<Doc<'a>>,
    /// Bytes in the arenas of enclosing evaluations.
    pub held_bytes: usize,
}

impl<'s, 'a> Cx<'s, 'a> {
    /// A context without variables.
    pub fn new(arena: &'a Bump, root: Value<'a>, env: &'s Env) -> Cx<'s, 'a> {
        Cx {
            arena,
            root,
            vars: None,
            env,
            meta: None,
            held_bytes: 0,
        }
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
    pub fn with_frame<'t>(&self, frame: &'t Frame<'t, 'a>) -> Cx<'t, 'a>
    where
        's: 't,
    {
        Cx {
            vars: Some(frame),
            ..*self
        }
    }

    /// To be called before `bytes` are allocated, and by loops for each step: bounds memory and
    /// checks the interrupt.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit; the errors of the interrupt.
    #[inline]
    pub fn spend(&self, bytes: usize) -> Result<()> {
        let all = self
            .held_bytes
            .saturating_add(self.arena.allocated_bytes())
            .saturating_add(bytes);
        if bytes > VALUE_BYTES_MAX || all > EVALUATION_BYTES_MAX {
            return too_large(bytes, all);
        }
        if bytes >= memory::STEP_BYTES {
            self.env.room_for(bytes)?;
        }
        self.env.work(1 + bytes / 64)
    }

    /// An array of values.
    ///
    /// # Errors
    /// The errors of [`Cx::spend`].
    pub fn array(&self, values: &[Value<'_>]) -> Result<Value<'a>> {
        self.spend(values.iter().map(|v| bytes_of(v) + 8).sum())?;
        Ok(Value::Array(Array::from_values_in(
            self.arena,
            values.iter().copied(),
        )))
    }

    /// The operation's collation.
    pub fn collate(&self) -> Option<&'s dyn Collate> {
        self.env.collate()
    }
}

/// Approximate bytes of a value in a document.
pub(crate) fn bytes_of(v: &Value<'_>) -> usize {
    match v {
        Value::Document(d) => d.len_bytes(),
        Value::Array(a) => a.as_bytes().len(),
        Value::String(s) | Value::Symbol(s) | Value::Code(s) => s.len() + 5,
        Value::Binary(b) => b.bytes.len() + 5,
        Value::Regex(r) => r.pattern.len() + r.options.len() + 2,
        Value::CodeWithScope(c, scope) => c.len() + scope.len() + 9,
        _ => 16,
    }
}

#[cold]
fn too_large(bytes: usize, all: usize) -> Result<()> {
    bail!(
        code::EXCEEDED_MEMORY_LIMIT,
        "the expression would use too much memory and cannot spill: {bytes} bytes for one value, \
            {VALUE_BYTES_MAX} are allowed; \
         {all} bytes for one document, {EVALUATION_BYTES_MAX} are allowed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use operation::Clock;

    /// A clock that counts how often it is read, as an operation with a deadline reads it.
    #[derive(Default)]
    struct CountingClock(AtomicUsize);

    impl Clock for CountingClock {
        fn now_ms(&self) -> i64 {
            0
        }
        fn monotonic_us(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            0
        }
    }

    #[test]
    fn memory_is_bounded_and_the_interrupt_is_asked() {
        let (mut env, arena) = (Env::new(0, 1), Bump::new());
        let cx = Cx::new(&arena, Value::Missing, &env);
        assert!(cx.spend(VALUE_BYTES_MAX).is_ok());
        assert_eq!(
            cx.spend(VALUE_BYTES_MAX + 1).map_err(|e| e.code()),
            Err(146)
        );
        let outer = Cx {
            held_bytes: EVALUATION_BYTES_MAX,
            ..cx
        };
        assert_eq!(outer.spend(1).map_err(|e| e.code()), Err(146));
        let clock = Arc::new(CountingClock::default());
        let operation = Operation::new_detached(clock.clone());
        operation.allow_us(u64::MAX - 1);
        let before = clock.0.load(Ordering::Relaxed);
        env.operation = Some(Arc::new(operation));
        (0..10 * WORK_BETWEEN_CHECKS).for_each(|_| env.work(1).unwrap_or_default());
        assert_eq!(clock.0.load(Ordering::Relaxed) - before, 10);
    }
}
