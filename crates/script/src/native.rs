//! Functions of the prelude that are implemented in Rust.

use crate::failure::Failure;
use crate::limits::PrintCallback;
use crate::{emitted, watch};
use md5::{Digest, Md5};
use model::Decimal128;
use operation::ConnectionId;
use rquickjs::{Ctx, Error, Exception, Function, Object, Result, Value as Js};
use std::cell::RefCell;
use std::time::Duration;

/// The name of the prelude's tools among the globals. A script cannot use it by accident; one that
/// does so on purpose harms only its own operation.
pub(crate) const TOOLS: &str = "\u{1}tools";

/// Longest sleep between two checks of the interrupt.
const NAP: Duration = Duration::from_millis(10);

thread_local! {
    /// Lines that the running call has printed; they are passed on after the call.
    static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Most lines kept of one call.
const LINES_MAX: usize = 1000;
/// Most bytes kept of a line.
const LINE_BYTES_MAX: usize = 10_000;

/// Passes on the lines printed since the last time.
pub(crate) fn hand_on_lines(by: ConnectionId, print: &PrintCallback) {
    for line in PRINTED.take() {
        print(by, &line);
    }
}

fn print(line: String) {
    PRINTED.with_borrow_mut(|lines| {
        if lines.len() < LINES_MAX {
            let end = line.floor_char_boundary(LINE_BYTES_MAX);
            lines.push(line.get(..end).unwrap_or_default().to_owned());
        }
    });
}

fn hex_md5(text: String) -> String {
    let sum = Md5::digest(text.as_bytes());
    sum.iter().map(|b| format!("{b:02x}")).collect()
}

fn decimal(ctx: Ctx<'_>, text: String) -> Result<String> {
    match Decimal128::parse(text.trim()) {
        Some(n) => Ok(n.to_string()),
        None => Err(Exception::throw_message(
            &ctx,
            &format!("Input is not a valid Decimal128 value: {text}"),
        )),
    }
}

/// Sleeps, but no longer than the operation may run.
fn sleep(ctx: Ctx<'_>, ms: f64) -> Result<()> {
    let mut left = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
    while !left.is_zero() {
        if watch::is_over() {
            return Err(Exception::throw_message(&ctx, "interrupted"));
        }
        let nap = left.min(NAP);
        std::thread::sleep(nap);
        left -= nap;
    }
    Ok(())
}

fn emit<'js>(ctx: Ctx<'js>, count: usize, key: Js<'js>, value: Js<'js>) -> Result<()> {
    let tools: Object<'js> = ctx.globals().get::<_, Object<'js>>(TOOLS)?;
    emitted::emit(&tools, count, &key, &value).map_err(|e| match e {
        Failure::Engine(e) => e,
        Failure::Ours(e) => {
            let message = e.message().to_owned();
            watch::fail(e);
            Exception::throw_message(&ctx, &message)
        }
    })
}

/// The object that is passed to the prelude.
pub(crate) fn object<'js>(
    ctx: &Ctx<'js>,
    version: &'static str,
) -> std::result::Result<Object<'js>, Error> {
    let o = Object::new(ctx.clone())?;
    o.set("print", Function::new(ctx.clone(), print)?)?;
    o.set("md5", Function::new(ctx.clone(), hex_md5)?)?;
    o.set("decimal", Function::new(ctx.clone(), decimal)?)?;
    o.set("sleep", Function::new(ctx.clone(), sleep)?)?;
    o.set("emit", Function::new(ctx.clone(), emit)?)?;
    o.set(
        "gc",
        Function::new(ctx.clone(), |ctx: Ctx<'_>| ctx.run_gc())?,
    )?;
    o.set("version", version)?;
    Ok(o)
}
