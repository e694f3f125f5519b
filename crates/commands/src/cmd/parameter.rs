//! `getParameter` and `setParameter`.

use context::command::Command;
use context::ctx::Ctx;
use model::{Result, Value, bail, code};
use request::Outcome;
use request::args::{Arg, Kind, arg, check_doc};
use request::spec::{Privilege, flag};
use state::parameters::{PARAMETERS, Parameter, Parameters, SetPhase};

pub(crate) static COMMANDS: &[Command] = &[
    Command::new(
        "getParameter",
        "reads server parameters",
        Privilege::Cluster(&[auth::Action::GetParameter]),
        flag::ADMIN | flag::LENIENT,
        &[],
        get,
    ),
    Command::new(
        "setParameter",
        "sets server parameters",
        Privilege::Cluster(&[auth::Action::SetParameter]),
        flag::ADMIN | flag::LENIENT,
        &[],
        set,
    ),
];

/// The parameters that the first field of `getParameter` requests.
struct ParameterQuery {
    all: bool,
    details: bool,
    set_at: Option<SetPhase>,
}

fn parse_query(value: Value<'_>) -> Result<ParameterQuery> {
    let mut w = ParameterQuery {
        all: value.as_str() == Some("*"),
        details: false,
        set_at: None,
    };
    let Some(d) = value.as_doc() else {
        return Ok(w);
    };
    static TABLE: &[Arg] = &[
        arg("showDetails", Kind::BoolLike),
        arg("allParameters", Kind::BoolLike),
        arg("setAt", Kind::Str),
    ];
    let args = check_doc("getParameter", TABLE, d)?;
    w.all = args.bool("allParameters", false);
    w.details = args.bool("showDetails", false);
    w.set_at = match args.str("setAt") {
        None => None,
        Some("startup") => Some(SetPhase::Startup),
        Some("runtime") => Some(SetPhase::Runtime),
        Some(other) => bail!(
            code::BAD_VALUE,
            "Enumeration value '{other}' for field 'getParameter.setAt' is not a valid value, \
                allowed are startup, runtime"
        ),
    };
    Ok(w)
}

fn settable(row: &Parameter, at: SetPhase) -> bool {
    row.set_at == SetPhase::Both || row.set_at == at
}

fn get(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let wanted = parse_query(cx.value())?;
    let fcv = cx.service.state.fcv.lock().clone();
    let mut found = false;
    for row in PARAMETERS {
        let named = cx
            .request
            .body
            .iter()
            .skip(1)
            .any(|(name, _)| name == row.name);
        if !(wanted.all || named) || wanted.set_at.is_some_and(|at| !settable(row, at)) {
            continue;
        }
        found = true;
        let value = cx.service.state.parameters.get(row, &fcv);
        if wanted.details {
            let mut one = cx.reply.doc(row.name);
            one.put("value", value.get());
            one.put("settableAtRuntime", settable(row, SetPhase::Runtime));
            one.put("settableAtStartup", settable(row, SetPhase::Startup));
        } else {
            cx.reply.put(row.name, value.get());
        }
    }
    if !found && !wanted.all {
        bail!(code::INVALID_OPTIONS, "no option found to get");
    }
    Ok(Outcome::Reply)
}

fn set(cx: &mut Ctx<'_, '_>) -> Result<Outcome> {
    let own = |name: &str| request::generic::is_generic(name) && Parameters::find(name).is_none();
    let changes: Vec<_> = cx
        .request
        .body
        .iter()
        .skip(1)
        .filter(|(name, _)| !own(name))
        .collect();
    for (name, _) in &changes {
        if Parameters::find(name).is_none() {
            bail!(
                code::INVALID_OPTIONS,
                "attempted to set unrecognized parameter [{name}], use getParameter:'*' to see the \
                    options"
            );
        }
        if *name == "featureCompatibilityVersion" {
            bail!(
                code::ILLEGAL_OPERATION,
                "Cannot set featureCompatibilityVersion by setParameter, use \
                    setFeatureCompatibilityVersion"
            );
        }
    }
    let mut was = None;
    for (name, value) in changes {
        let audit = &cx.service.state.audit;
        if name == "auditAuthorizationSuccess" && audit.is_changed_by_clients() {
            bail!(
                code::ILLEGAL_OPERATION,
                "auditAuthorizationSuccess is set by setAuditConfig, because the audit runs with \
                    runtimeConfiguration"
            );
        }
        was = Some(cx.service.state.parameters.set(name, value)?);
        cx.service
            .audit(cx.operation.connection(), "setParameter", 0, |w| {
                w.put("name", name).put("value", value);
            });
    }
    cx.service.follow_audit_parameters();
    cx.service.limit_scripts();
    cx.service.follow_parameters();
    let Some(was) = was else {
        bail!(
            code::INVALID_OPTIONS,
            "no option found to set, use getParameter:'*' to see the options"
        )
    };
    cx.reply.put("was", was.get());
    Ok(Outcome::Reply)
}
