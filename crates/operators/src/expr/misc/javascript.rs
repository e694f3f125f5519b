//! `$function: {body, args, lang: "js"}` and `$_internalJsEmit: {this, eval}`, with which mapReduce
//! is built. Errors: 31260 / 31326-like no document, 31261 / 31262 / 31432 no body, no text, no
//! constant, 31263 / 31266 no args, no array of them, 31418 / 31419 no language, another one; 31348
//! / 31244 / 31245 / 31349 of the internal one; at run time 31264 without the engine and those of
//! [`crate::script::Scripts::call`].

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx, parse};
use crate::script::{Call, CallResult, Script};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "$function",
        parse: parse_function,
    },
    Operator {
        name: "$_internalJsEmit",
        parse: parse_emit,
    },
];

fn parse_function(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            31260,
            "{name} requires an object as an argument, found: {}",
            spec.type_name()
        )
    };
    if d.field("body").is_missing() {
        bail!(31261, "The body function must be specified.");
    }
    let body = parse(cx, d.field("body"))?;
    let Some(body) = body.constant() else {
        bail!(31432, "The body function must be a constant expression")
    };
    let Some(source) = Script::source_of(&body) else {
        bail!(
            31262,
            "The body function must evaluate to type string or code"
        )
    };
    if d.field("args").is_missing() {
        bail!(31263, "The args field must be specified.");
    }
    let args = parse(cx, d.field("args"))?;
    match d.field("lang") {
        Value::Missing => bail!(31418, "The lang field must be specified."),
        Value::String("js") => {}
        _ => bail!(
            31419,
            "Currently the only supported language specifier is 'js'."
        ),
    }
    Ok(Box::new(Function {
        script: Script::new(source),
        args,
    }))
}

struct Function {
    script: Script,
    args: BoxExpr,
}

impl Expr for Function {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let Value::Array(args) = self.args.eval(cx)? else {
            bail!(31266, "The args field must be of type array")
        };
        let scripts = cx.env.scripts()?;
        cx.env.check_interrupt()?;
        let args: Vec<Value<'_>> = args.iter().collect();
        let call = Call {
            script: &self.script,
            this: None,
            args: &args,
            wants: CallResult::Value,
        };
        scripts.call(cx, &call)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.args.as_ref());
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

fn parse_emit(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::Document(d) = spec else {
        bail!(
            31221,
            "{name} requires an object as an argument, found: {}",
            spec.type_name()
        )
    };
    let Some(source) = d.get("eval").as_ref().and_then(Script::source_of) else {
        bail!(
            31222,
            "The map function must be specified as a string or code"
        )
    };
    if d.field("this").is_missing() {
        bail!(31223, "'this' must be specified");
    }
    Ok(Box::new(Emit {
        script: Script::new(source),
        this: parse(cx, d.field("this"))?,
    }))
}

struct Emit {
    script: Script,
    this: BoxExpr,
}

impl Expr for Emit {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let this = self.this.eval(cx)?;
        if this.as_doc().is_none() {
            bail!(31225, "'this' must be an object, not {}", this.type_name());
        }
        cx.env.check_interrupt()?;
        let call = Call {
            script: &self.script,
            this: Some(this),
            args: &[],
            wants: CallResult::Emitted,
        };
        cx.env.scripts()?.call(cx, &call)
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.this.as_ref());
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let code = "function(x) { return x }";
        let row = |spec: &str, want: &'static str| (spec.replace("CODE", code), want);
        for (spec, want) in [
            row("{'$function': 1}", "!31260"),
            row("{'$function': {'args': [], 'lang': 'js'}}", "!31261"),
            row(
                "{'$function': {'body': 1, 'args': [], 'lang': 'js'}}",
                "!31262",
            ),
            row(
                "{'$function': {'body': '$x', 'args': [], 'lang': 'js'}}",
                "!31432",
            ),
            row("{'$function': {'body': 'CODE', 'lang': 'js'}}", "!31263"),
            row("{'$function': {'body': 'CODE', 'args': []}}", "!31418"),
            row(
                "{'$function': {'body': 'CODE', 'args': [], 'lang': 'py'}}",
                "!31419",
            ),
            row(
                "{'$function': {'body': 'CODE', 'args': 1, 'lang': 'js'}}",
                "!31266",
            ),
            // Without an engine.
            row(
                "{'$function': {'body': 'CODE', 'args': [], 'lang': 'js'}}",
                "!31264",
            ),
        ] {
            crate::expr::check::table(&[(&spec, "{}", want)]);
        }
    }
}
