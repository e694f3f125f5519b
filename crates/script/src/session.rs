//! The JavaScript context of one operation on one thread: the prelude, global variables, compiled
//! functions.

use crate::failure::{Failure, Outcome};
use crate::native::TOOLS;
use crate::to_bson::ToBson;
use crate::to_js::{ToJs, tool};
use crate::{emitted, native, source};
use model::{DocBuf, Result, Value};
use operators::script::{Call, CallResult, Script};
use operators::{Cx, Env};
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::function::Args;
use rquickjs::object::Property;
use rquickjs::{Context, Ctx, Error, Function, Object, Persistent, Runtime, Value as Js};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// The available parts of the language: none that shares memory or waits.
type Language = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// A compiled function.
struct CompiledFunction {
    function: Persistent<Function<'static>>,
    /// The fields of the document that it can use; `None` is all.
    fields: Option<Vec<String>>,
}

/// The context of one operation.
pub(crate) struct Session {
    /// The operation's id.
    pub(crate) operation: u64,
    // Values must be dropped before the context.
    compiled: FxHashMap<u64, CompiledFunction>,
    tools: Persistent<Object<'static>>,
    context: Context,
}

impl Session {
    /// A context with the operation's global variables.
    ///
    /// # Errors
    /// 139 JSInterpreterFailure without memory for it; those of the interrupt.
    pub(crate) fn new(runtime: &Runtime, env: &Env, version: &'static str) -> Result<Session> {
        let context = Context::custom::<Language>(runtime)
            .map_err(|_| crate::failure::script_error("InternalError: out of memory"))?;
        let tools = context.with(|ctx| {
            prepare(&ctx, env, version)
                .map(|tools| Persistent::save(&ctx, tools))
                .map_err(|e| e.into_error(&ctx, None))
        })?;
        Ok(Session {
            operation: env.id,
            compiled: FxHashMap::default(),
            tools,
            context,
        })
    }

    /// Calls a function.
    ///
    /// # Errors
    /// As [`operators::script::Scripts::call`].
    pub(crate) fn call<'a>(&mut self, cx: &Cx<'_, 'a>, call: &Call<'_, '_>) -> Result<Value<'a>> {
        let (tools, compiled) = (self.tools.clone(), &mut self.compiled);
        self.context.with(|ctx| {
            let tools = tools
                .restore(&ctx)
                .map_err(|e| Failure::from(e).into_error(&ctx, None))?;
            run(&ctx, &tools, compiled, cx, call).map_err(|e| e.into_error(&ctx, Some(&tools)))
        })
    }
}

fn prepare<'js>(ctx: &Ctx<'js>, env: &Env, version: &'static str) -> Outcome<Object<'js>> {
    let prelude: Function<'js> =
        ctx.eval_with_options(include_str!("prelude.js"), options("shell"))?;
    let tools: Object<'js> = prelude.call((native::object(ctx, version)?,))?;
    if env.profile.has_utc_scripts() {
        let utc: Function<'js> = ctx.eval_with_options(include_str!("utc.js"), options("shell"))?;
        utc.call::<_, ()>(())?;
    }
    let globals = ctx.globals();
    globals.prop(TOOLS, Property::from(tools.clone()))?;
    globals.prop("fullObject", Property::from(true).writable().configurable())?;
    if let Some(library) = &env.script_library {
        store_library(ctx, &tools, library)?;
    }
    if let Some(scope) = &env.script_scope {
        let mut to_js = ToJs::new(ctx, &tools, false);
        for (name, v) in scope.doc().iter() {
            globals.set(name, to_js.argument(&v)?)?;
        }
    }
    Ok(tools)
}

/// Defines global variables from the stored scripts: functions for code, values for everything
/// else.
fn store_library<'js>(ctx: &Ctx<'js>, tools: &Object<'js>, library: &DocBuf) -> Outcome<()> {
    let globals = ctx.globals();
    let mut to_js = ToJs::new(ctx, tools, false);
    for (name, v) in library.doc().iter() {
        match v {
            Value::Code(source) | Value::CodeWithScope(source, _) => {
                globals.set(name, compile(ctx, &Script::new(source))?)?;
            }
            v => globals.set(name, to_js.argument(&v)?)?,
        }
    }
    Ok(())
}

fn options(name: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.filename = Some(name.to_owned());
    options
}

/// Compiles a text in its first form that is not a syntax error.
fn compile<'js>(ctx: &Ctx<'js>, script: &Script) -> Outcome<Function<'js>> {
    let mut last = Failure::from(Error::Unknown);
    for text in source::candidates(&script.source) {
        let compiled = ctx.eval_with_options::<Js<'js>, _>(text, options("script"));
        match compiled {
            Ok(v) => match v.into_function() {
                Some(f) => return Ok(f),
                // The text was a function that was called at once, so it is an expression.
                None => continue,
            },
            Err(Error::Exception) => {
                let thrown = ctx.catch();
                let is_syntax = thrown
                    .as_object()
                    .and_then(|o| o.get::<_, String>("name").ok())
                    .is_some_and(|name| name == "SyntaxError");
                ctx.throw(thrown);
                last = Failure::from(Error::Exception);
                if !is_syntax {
                    break;
                }
            }
            Err(e) => last = Failure::from(e),
        }
    }
    Err(last)
}

fn run<'js, 'a>(
    ctx: &Ctx<'js>,
    tools: &Object<'js>,
    compiled: &mut FxHashMap<u64, CompiledFunction>,
    cx: &Cx<'_, 'a>,
    call: &Call<'_, '_>,
) -> Outcome<Value<'a>> {
    let found = match compiled.entry(call.script.id) {
        Entry::Occupied(found) => found.into_mut(),
        Entry::Vacant(place) => place.insert(CompiledFunction {
            function: Persistent::save(ctx, compile(ctx, call.script)?),
            fields: source::fields_read(&call.script.source),
        }),
    };
    let function = found.function.clone().restore(ctx)?;
    let mut to_js = ToJs::new(ctx, tools, call.wants != CallResult::Truth);
    let mut args = Args::new(ctx.clone(), call.args.len().max(3));
    if let Some(this) = &call.this {
        let this = match this {
            Value::Document(d) => to_js.document(*d, found.fields.as_deref())?,
            v => to_js.argument(v)?,
        };
        ctx.globals().set("obj", this.clone())?;
        args.this(this)?;
    }
    let returned: Js<'js> = if call.wants == CallResult::Fold {
        args.push_arg(function)?;
        for v in call.args {
            args.push_arg(to_js.argument(v)?)?;
        }
        args.apply(&tools.get::<_, Function<'js>>("fold")?)?
    } else {
        for v in call.args {
            args.push_arg(to_js.argument(v)?)?;
        }
        args.apply(&function)?
    };
    // Kept alive until the result is read.
    let noted = to_js.into_live_objects();
    let result = answer(tools, cx, call.wants, &returned);
    drop(noted);
    result
}

/// Converts the returned value to the wanted result.
fn answer<'js, 'a>(
    tools: &Object<'js>,
    cx: &Cx<'_, 'a>,
    wants: CallResult,
    returned: &Js<'js>,
) -> Outcome<Value<'a>> {
    match wants {
        CallResult::Truth => Ok(Value::Bool(match returned.as_bool() {
            Some(b) => b,
            None => tool(tools, "truth", (returned.clone(),))?,
        })),
        CallResult::Emitted => {
            let all = emitted::end();
            cx.spend(all.as_bytes().len())?;
            Ok(Value::Array(all.doc().copy_into(cx.arena).as_array()))
        }
        CallResult::Value | CallResult::Fold => {
            let mut written = Ok(());
            let doc = DocBuf::build(|w| {
                written = ToBson::new(tools).write_returned(w, "", returned);
            });
            written?;
            cx.spend(doc.as_bytes().len())?;
            Ok(doc
                .doc()
                .first()
                .map_or(Value::Null, |(_, v)| v.copy_into(cx.arena)))
        }
    }
}
