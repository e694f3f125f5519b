//! Chooses and opens the driver for the address of `--target`.

use lab_kit::engine::{EngineOptions, LabEngine};
use lab_kit::kv::{ENGINE_DATA, KvTarget, OwnDirectory};
use lab_kit::target::TargetError;

use crate::credentials::hide_password;
use crate::errors::LabError;
use crate::load::{Job, Link};
use crate::mongo::{MongoSettings, MongoTarget};
use crate::run::{DEFAULT_DB, RunPlan, arguments_of};

pub(crate) const DRIVER_MONGO: &str = "mongodb 3.9 (Rust)";
const FORMS: &str = "mongodb://HOST:PORT, mysql://USER@HOST:PORT/DB, or ENGINE:DIRECTORY with \
    rocksdb, rocksdb-library, lmdb, fjall, redb, wiredtiger, forestdb or perconaft";

/// Runs a plan against whatever its target names.
pub(crate) async fn run(plan: RunPlan<'_>) -> Result<(), LabError> {
    let given = plan.arguments.target.clone();
    let scheme = given.split(':').next().unwrap_or_default();
    match scheme {
        "mongodb" | "mongodb+srv" => {
            let open = async |plan: &RunPlan<'_>| open_mongo(plan).await;
            plan.run(DRIVER_MONGO, open).await
        }
        "mysql" | "mariadb" => run_mysql(plan).await,
        "rocksdb" | "rocksdb-library" | "lmdb" | "fjall" | "redb" | "forestdb" | "wiredtiger"
        | "perconaft" => {
            let open = async |plan: &RunPlan<'_>| open_engine(plan, scheme);
            plan.run("none: the engine is called directly", open).await
        }
        _ => Err(wrong(&given, &format!("it is none of {FORMS}"))),
    }
}

/// Generates the load of a run that a lab on another machine has sent, until the lab ends it.
///
/// # Errors
/// The run is invalid, the target does not answer, or the connection to the lab is lost.
pub(crate) async fn make_load(job: Job, link: &mut Link) -> Result<(), LabError> {
    let arguments = arguments_of(&job)?;
    let plan = RunPlan::of_job(&arguments, &job)?;
    let given = arguments.target.clone();
    match given.split(':').next().unwrap_or_default() {
        "mongodb" | "mongodb+srv" => {
            let target = open_mongo(&plan).await?;
            plan.make_load(target, &job, link).await
        }
        "mysql" | "mariadb" => make_load_mysql(plan, &job, link).await,
        _ => Err(wrong(&given, "agents generate load against servers only")),
    }
}

async fn open_mongo(plan: &RunPlan<'_>) -> Result<MongoTarget, LabError> {
    let arguments = plan.arguments;
    let settings = MongoSettings {
        target: &arguments.target,
        database: &arguments.db,
        databases: arguments.databases.unwrap_or(1),
        tables: plan.tables(true),
        clients: plan.clients_max(),
        may_drop: arguments.drop || arguments.db == DEFAULT_DB,
        write_concern: arguments.write_concern.as_deref(),
        journal: arguments.journal,
        copy: arguments.copy.as_deref(),
        data_dir: arguments.data_dir.clone(),
    };
    Ok(MongoTarget::open(settings).await?)
}

fn wrong(given: &str, reason: &str) -> LabError {
    TargetError::Address {
        given: hide_password(given),
        reason: reason.to_owned(),
    }
    .into()
}

#[cfg(feature = "mysql")]
async fn open_mysql(plan: &RunPlan<'_>) -> Result<lab_sql::SqlTarget, LabError> {
    let arguments = plan.arguments;
    let options = lab_sql::Options {
        address: arguments.target.clone(),
        shown: hide_password(&arguments.target),
        may_drop: arguments.drop || arguments.db == DEFAULT_DB,
        database: arguments.db.clone(),
        data_dir: arguments.data_dir.clone(),
    };
    let tables = plan.tables(false);
    // The driver blocks its thread, which would hang on a server that accepts the connection and
    // never answers.
    let opened = tokio::task::spawn_blocking(|| lab_sql::SqlTarget::open(options, tables));
    let target = opened
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    Ok(target)
}

#[cfg(feature = "mysql")]
async fn run_mysql(plan: RunPlan<'_>) -> Result<(), LabError> {
    let open = async |plan: &RunPlan<'_>| open_mysql(plan).await;
    plan.run("mysql 28 (Rust)", open).await
}

#[cfg(feature = "mysql")]
async fn make_load_mysql(plan: RunPlan<'_>, job: &Job, link: &mut Link) -> Result<(), LabError> {
    let target = open_mysql(&plan).await?;
    plan.make_load(target, job, link).await
}

#[cfg(not(feature = "mysql"))]
async fn make_load_mysql(plan: RunPlan<'_>, _: &Job, _: &mut Link) -> Result<(), LabError> {
    Err(driver_error(&plan.arguments.target, "mysql"))
}

#[cfg(not(feature = "mysql"))]
async fn run_mysql(plan: RunPlan<'_>) -> Result<(), LabError> {
    Err(driver_error(&plan.arguments.target, "mysql"))
}

fn driver_error(given: &str, feature: &str) -> LabError {
    wrong(
        given,
        &format!("this build has no {feature} driver; build with --features {feature}"),
    )
}

fn open_engine(plan: &RunPlan<'_>, scheme: &str) -> Result<KvTarget, LabError> {
    let given = &plan.arguments.target;
    let rest = given.get(scheme.len() + 1..).unwrap_or_default();
    let mut options = EngineOptions::parse(rest).map_err(|reason| wrong(given, &reason))?;
    let durability = format!("{:?}", options.durability).to_lowercase();
    // Checks that this build has the engine before anything is deleted.
    let open = opener(scheme).ok_or_else(|| driver_error(given, scheme))?;
    let keep = plan.resumed.is_some() || plan.loaded.is_some();
    let directory = OwnDirectory::take(&options.path, &[ENGINE_DATA], keep)?;
    options.path = directory.make(ENGINE_DATA)?;
    let engine = open(options).map_err(|error| {
        LabError::from(TargetError::Unreachable {
            address: given.clone(),
            reason: error.to_string(),
        })
    })?;
    Ok(KvTarget::new(
        engine,
        plan.tables(false),
        directory,
        given.clone(),
        durability,
    ))
}

type Opener = fn(EngineOptions) -> Result<Box<dyn LabEngine>, lab_kit::engine::EngineError>;

/// The function that opens an engine, if this build has it.
fn opener(scheme: &str) -> Option<Opener> {
    match scheme {
        #[cfg(feature = "redb")]
        "redb" => Some(lab_redb::open),
        #[cfg(feature = "fjall")]
        "fjall" => Some(lab_fjall::open),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Some(lab_rocksdb::open),
        #[cfg(feature = "rocksdb-library")]
        "rocksdb-library" => Some(lab_rocksdb_library::open),
        #[cfg(feature = "lmdb")]
        "lmdb" => Some(lab_lmdb::open),
        #[cfg(feature = "forestdb")]
        "forestdb" => Some(lab_forestdb::open),
        #[cfg(feature = "wiredtiger")]
        "wiredtiger" => Some(lab_wiredtiger::open),
        #[cfg(feature = "perconaft")]
        "perconaft" => Some(lab_perconaft::open),
        _ => None,
    }
}
