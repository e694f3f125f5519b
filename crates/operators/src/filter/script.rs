//! `$where`: a JavaScript function on the document. Errors: 6108304 without the engine, 4649201
//! code with a scope, 2 another type, no code, or where no script is allowed; at run time those of
//! [`crate::script::Scripts::call`].

use crate::Cx;
use crate::script::{Call, CallResult, Script};
use model::{Doc, Result, Value, bail, code};

/// A parsed `$where`.
pub struct Where(Script);

impl Where {
    /// `allowed`: scripts are allowed here; `runs`: there is an engine.
    pub(super) fn parse(v: Value<'_>, allowed: bool, runs: bool) -> Result<Where> {
        if !allowed {
            bail!(code::BAD_VALUE, "$where is not allowed in this context");
        }
        if matches!(v, Value::CodeWithScope(..)) {
            bail!(
                4649201,
                "$where no longer supports deprecated BSON type CodeWScope"
            );
        }
        let Some(source) = Script::source_of(&v) else {
            bail!(code::BAD_VALUE, "$where got bad type");
        };
        if source.is_empty() {
            bail!(code::BAD_VALUE, "code for $where cannot be empty");
        }
        if !runs {
            bail!(6108304, "no globalScriptEngine in $where parsing");
        }
        Ok(Where(Script::new(source)))
    }

    pub(super) fn matches(&self, doc: Doc<'_>, cx: &Cx<'_, '_>) -> Result<bool> {
        let call = Call {
            script: &self.0,
            this: Some(Value::Document(doc)),
            args: &[],
            wants: CallResult::Truth,
        };
        let truth = cx.env.scripts()?.call(cx, &call)?;
        Ok(truth.as_bool() == Some(true))
    }
}
