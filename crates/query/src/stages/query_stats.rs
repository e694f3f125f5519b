//! `$queryStats: {transformIdentifiers}`: statistics of query shapes; only on the admin database.
//! None are kept: MongoDB's, too, are off unless `internalQueryStatsRateLimit` says otherwise.
//! Errors: 9 no object, 14 wrong types, 40414 and 40415 missing and unknown fields, 2 an algorithm
//! that is none, 73 elsewhere.

use super::fields::Fields;
use super::listed::{ListingStage, require_admin};
use crate::stage::{ApiClass, Placement, Report, RequiredPrivilege, StageNeeds, StageOp, one};
use model::{Doc, Result, Value, bail, code};

/// Fewest bytes of a key.
const KEY_BYTES_MIN: usize = 32;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$queryStats",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add(RequiredPrivilege::Server(Report::QueryStatistics));
        Ok(())
    }),
    placement: Placement::DATABASE,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                code::FAILED_TO_PARSE,
                "{name} value must be an object. Found: {}",
                arg.type_name()
            );
        };
        let f = Fields::new(name, spec, &["transformIdentifiers"])?;
        if let Some(transform) = f.document("transformIdentifiers")? {
            check_transform(transform)?;
        }
        require_admin(scx, name)?;
        one(ListingStage::new(model::doc! { name: arg }, |_| {
            Ok(Vec::new())
        }))
    },
}];

fn check_transform(spec: Doc<'_>) -> Result<()> {
    const SCOPE: &str = "$queryStats.transformIdentifiers";
    let f = Fields::new(SCOPE, spec, &["algorithm", "hmacKey"])?;
    f.required("algorithm")?;
    match f.string("algorithm")? {
        Some("hmac-sha-256") => {}
        other => bail!(
            code::BAD_VALUE,
            "Enumeration value '{}' for field '{SCOPE}.algorithm' is not a valid value",
            other.unwrap_or("")
        ),
    }
    match f.required("hmacKey")? {
        Value::Binary(key) if key.bytes.len() >= KEY_BYTES_MIN => Ok(()),
        Value::Binary(_) => bail!(
            code::FAILED_TO_PARSE,
            "the 'hmacKey' of $queryStats must be {KEY_BYTES_MIN} bytes or longer"
        ),
        v => f.wrong_type("hmacKey", v, "binData"),
    }
}
