//! The table of built-in roles. Source: MongoDB's manual page of built-in roles for 8.2, on which
//! clients and administrators rely.

use crate::action::Action::{self, *};
use crate::action::ActionSet;
use crate::names::RoleName;
use crate::privilege::Privilege;
use crate::resource::Resource;

/// The resource of a role's privilege; `Own` is the database that the role belongs to.
#[derive(Clone, Copy, Debug)]
enum On {
    Own,
    OwnColl(&'static str),
    Cluster,
    Any,
    Normal,
    Db(&'static str),
    Named(&'static str),
    Exact(&'static str, &'static str),
    Buckets,
}

type Row = (On, &'static [&'static [Action]]);

/// A built-in role.
#[derive(Debug)]
pub struct BuiltinRole {
    /// Its name.
    pub name: &'static str,
    /// It exists on `admin` only.
    admin_only: bool,
    /// Roles it inherits: of its own database, or of the named one.
    inherits: &'static [(&'static str, Option<&'static str>)],
    rows: &'static [Row],
}

const READ: &[Action] = &[
    ChangeStream,
    CollStats,
    DbHash,
    DbStats,
    Find,
    KillCursors,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheRead,
];
const WRITE: &[Action] = &[
    CleanupStructuredEncryptionData,
    CompactStructuredEncryptionData,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    DropIndex,
    DropSearchIndex,
    Insert,
    Remove,
    RenameCollectionSameDb,
    Update,
    UpdateSearchIndex,
];
const USERS: &[Action] = &[
    ChangeCustomData,
    ChangePassword,
    CreateRole,
    CreateUser,
    DropRole,
    DropUser,
    GrantRole,
    RevokeRole,
    SetAuthenticationRestriction,
    ViewRole,
    ViewUser,
];
const SCHEMA: &[Action] = &[
    Analyze,
    BypassDocumentValidation,
    CollMod,
    CollStats,
    Compact,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DbStats,
    DropCollection,
    DropDatabase,
    DropIndex,
    DropSearchIndex,
    EnableProfiler,
    ListCollections,
    ListIndexes,
    ListSearchIndexes,
    PlanCacheIndexFilter,
    PlanCacheRead,
    PlanCacheWrite,
    ReIndex,
    RenameCollectionSameDb,
    StorageDetails,
    UpdateSearchIndex,
    Validate,
];
const PROFILE: &[Action] = &[ConvertToCapped, CreateCollection, DropCollection];
const QUERY_ANALYZER: &[Action] = &[ConfigureQueryAnalyzer];
const INDEXES: &[Action] = &[CreateIndex, CreateSearchIndexes, DropIndex, DropSearchIndex];
const STATISTICS: &[Action] = &[
    CollStats,
    DbStats,
    GetDatabaseVersion,
    GetShardVersion,
    IndexStats,
];
const SHARDING: &[Action] = &[
    AnalyzeShardKey,
    ClearJumboFlag,
    ConfigureQueryAnalyzer,
    EnableSharding,
    MoveChunk,
    MoveCollection,
    RefineCollectionShardKey,
    ReshardCollection,
    SplitChunk,
    SplitVector,
];
const CHANGES: &[Action] = &[Insert, Remove, Update];
const LOAD: &[Action] = &[
    BypassDocumentValidation,
    CollMod,
    ConvertToCapped,
    CreateCollection,
    CreateIndex,
    CreateSearchIndexes,
    DropCollection,
    Insert,
    UpdateSearchIndex,
];
const FIND: &[Action] = &[Find];

/// Every built-in role.
pub static BUILTIN: &[BuiltinRole] = &[
    BuiltinRole {
        name: "__queryableBackup",
        admin_only: true,
        inherits: &[],
        rows: &[
            (
                On::Any,
                &[&[CollStats, ListCollections, ListIndexes, ListSearchIndexes]],
            ),
            (On::Normal, &[FIND]),
            (On::Buckets, &[FIND]),
            (On::Cluster, &[&[GetParameter, ListDatabases, UseUuid]]),
            (On::Db("config"), &[FIND]),
            (On::Db("local"), &[FIND]),
            (On::Exact("local", "replset.election"), &[FIND]),
            (On::Exact("local", "replset.minvalid"), &[FIND]),
            (On::Named("system.js"), &[FIND]),
            (On::Named("system.users"), &[FIND]),
            (On::Named("system.profile"), &[FIND]),
            (On::Exact("admin", "system.backup_users"), &[FIND]),
            (On::Exact("admin", "system.roles"), &[FIND]),
            (On::Exact("admin", "system.version"), &[FIND]),
            (On::Exact("config", "settings"), &[FIND]),
        ],
    },
    BuiltinRole {
        name: "__system",
        admin_only: true,
        inherits: &[],
        rows: &[(On::Any, &[Action::ALL])],
    },
    BuiltinRole {
        name: "backup",
        admin_only: true,
        inherits: &[("__queryableBackup", None)],
        rows: &[
            (
                On::Cluster,
                &[&[AppendOplogNote, ServerStatus, SetUserWriteBlockMode]],
            ),
            (On::Exact("config", "settings"), &[&[Insert, Update]]),
        ],
    },
    BuiltinRole {
        name: "clusterAdmin",
        admin_only: true,
        inherits: &[
            ("clusterMonitor", None),
            ("hostManager", None),
            ("clusterManager", None),
        ],
        rows: &[
            (On::Normal, &[&[DropDatabase]]),
            (On::Any, &[&[ExportCollection, ImportCollection]]),
        ],
    },
    BuiltinRole {
        name: "clusterManager",
        admin_only: true,
        inherits: &[("read", Some("config"))],
        rows: &[
            (On::Cluster, &[CLUSTER_MANAGER]),
            (On::Normal, &[SHARDING]),
            (On::Buckets, &[SHARDING]),
            (On::Db("config"), &[SHARDING, CHANGES]),
            (On::Db("local"), &[SHARDING, CHANGES]),
            (On::Exact("local", "system.replset"), &[READ]),
            (On::Any, &[&[DbCheck]]),
            (On::Exact("local", "system.healthlog"), &[READ]),
            (On::Exact("local", "replset.election"), &[CHANGES]),
            (On::Exact("local", "replset.minvalid"), &[CHANGES]),
        ],
    },
    BuiltinRole {
        name: "clusterMonitor",
        admin_only: true,
        inherits: &[("read", Some("config")), ("read", Some("local"))],
        rows: &[
            (On::Cluster, &[CLUSTER_MONITOR]),
            (On::Normal, &[STATISTICS]),
            (On::Db("config"), &[STATISTICS]),
            (On::Exact("config", "system.sessions"), &[STATISTICS]),
            (On::Db("local"), &[STATISTICS]),
            (On::Exact("local", "system.replset"), &[FIND]),
            (On::Exact("local", "replset.election"), &[FIND]),
            (On::Exact("local", "replset.minvalid"), &[FIND]),
            (On::Named("system.profile"), &[FIND]),
        ],
    },
    BuiltinRole {
        name: "dbAdmin",
        admin_only: false,
        inherits: &[],
        rows: &[
            (On::Own, &[SCHEMA, QUERY_ANALYZER]),
            (On::OwnColl("system.profile"), &[READ, PROFILE]),
        ],
    },
    BuiltinRole {
        name: "dbAdminAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (On::Cluster, &[&[ListDatabases, ApplyOps]]),
            (On::Normal, &[SCHEMA, QUERY_ANALYZER]),
            (On::Named("system.profile"), &[READ, PROFILE]),
            (On::Buckets, &[SCHEMA]),
        ],
    },
    BuiltinRole {
        name: "dbOwner",
        admin_only: false,
        inherits: &[("readWrite", None), ("dbAdmin", None), ("userAdmin", None)],
        rows: &[],
    },
    BuiltinRole {
        name: "directShardOperations",
        admin_only: true,
        inherits: &[],
        rows: &[(On::Cluster, &[&[IssueDirectShardOperations]])],
    },
    BuiltinRole {
        name: "enableSharding",
        admin_only: false,
        inherits: &[],
        rows: &[(
            On::Normal,
            &[&[
                AnalyzeShardKey,
                EnableSharding,
                MoveCollection,
                RefineCollectionShardKey,
                ReshardCollection,
            ]],
        )],
    },
    BuiltinRole {
        name: "hostManager",
        admin_only: true,
        inherits: &[],
        rows: &[
            (On::Cluster, &[HOST_MANAGER]),
            (On::Normal, &[&[KillCursors]]),
        ],
    },
    BuiltinRole {
        name: "read",
        admin_only: false,
        inherits: &[],
        rows: &[(On::Own, &[READ]), (On::OwnColl("system.js"), &[READ])],
    },
    BuiltinRole {
        name: "readAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (On::Normal, &[READ]),
            (On::Cluster, &[&[ListDatabases]]),
            (On::Named("system.js"), &[READ]),
            (On::Buckets, &[READ]),
        ],
    },
    BuiltinRole {
        name: "readWrite",
        admin_only: false,
        inherits: &[],
        rows: &[
            (On::Own, &[READ, WRITE]),
            (On::OwnColl("system.js"), &[READ, WRITE]),
        ],
    },
    BuiltinRole {
        name: "readWriteAnyDatabase",
        admin_only: true,
        inherits: &[("readAnyDatabase", None)],
        rows: &[
            (On::Normal, &[READ, WRITE]),
            (On::Named("system.js"), &[READ, WRITE]),
            (On::Buckets, &[READ, WRITE]),
        ],
    },
    BuiltinRole {
        name: "restore",
        admin_only: true,
        inherits: &[],
        rows: &[
            (
                On::Cluster,
                &[&[
                    ApplyOps,
                    BypassWriteBlockingMode,
                    ForceUuid,
                    GetParameter,
                    SetUserWriteBlockMode,
                    UseUuid,
                ]],
            ),
            (On::Db("local"), &[LOAD]),
            (On::Db("config"), &[LOAD]),
            (On::Buckets, &[LOAD]),
            (On::Exact("local", "system.replset"), &[LOAD]),
            (On::Exact("local", "replset.election"), &[LOAD]),
            (On::Exact("local", "replset.minvalid"), &[LOAD]),
            (On::Any, &[&[ListCollections]]),
            (On::Normal, &[LOAD, USERS]),
            (On::Named("system.js"), &[LOAD]),
            (On::Exact("admin", "tempusers"), &[FIND]),
            (On::Exact("admin", "temproles"), &[FIND]),
            (On::Exact("admin", "system.backup_users"), &[LOAD]),
            (On::Exact("admin", "system.version"), &[LOAD, FIND]),
            (On::Named("system.users"), &[LOAD, &[Find, Remove, Update]]),
            (On::Exact("admin", "system.roles"), &[&[CreateIndex]]),
        ],
    },
    BuiltinRole {
        name: "root",
        admin_only: true,
        inherits: &[
            ("clusterAdmin", None),
            ("userAdminAnyDatabase", None),
            ("dbAdminAnyDatabase", None),
            ("readWriteAnyDatabase", None),
            ("backup", None),
            ("restore", None),
            ("directShardOperations", None),
        ],
        rows: &[
            (On::Any, &[&[Validate]]),
            (On::Cluster, &[&[UseTenant]]),
            (On::Exact("config", "system.preimages"), &[&[Find, Remove]]),
            (
                On::Exact("config", "system.change_collection"),
                &[FIND, CHANGES],
            ),
        ],
    },
    BuiltinRole {
        name: "userAdmin",
        admin_only: false,
        inherits: &[],
        rows: &[(On::Own, &[USERS])],
    },
    BuiltinRole {
        name: "userAdminAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (On::Normal, &[USERS, &[ListCachedAndActiveUsers]]),
            (On::Db("local"), &[USERS]),
            (On::Db("config"), &[USERS]),
            (
                On::Cluster,
                &[&[
                    AuthSchemaUpgrade,
                    InvalidateUserCache,
                    ListDatabases,
                    ViewUser,
                ]],
            ),
            (On::Exact("admin", "system.users"), &[READ, INDEXES]),
            (On::Exact("admin", "system.roles"), &[READ, INDEXES]),
            (On::Named("system.users"), &[READ]),
            (On::Exact("admin", "system.version"), &[READ]),
            (On::Exact("admin", "system.backup_users"), &[READ]),
        ],
    },
];

const CLUSTER_MONITOR: &[Action] = &[
    AllCollectionStats,
    ConnPoolStats,
    GetCmdLineOpts,
    GetDefaultRwConcern,
    GetLog,
    GetParameter,
    GetShardMap,
    HostInfo,
    Inprog,
    ListDatabases,
    ListSampledQueries,
    ListSessions,
    ListShards,
    Netstat,
    OperationMetrics,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ServerStatus,
    ShardedDataDistribution,
    ShardingState,
    Top,
    UseUuid,
];
const CLUSTER_MANAGER: &[Action] = &[
    AddShard,
    AppendOplogNote,
    ApplicationMessage,
    CheckMetadataConsistency,
    CleanupOrphaned,
    FlushRouterConfig,
    GetChangeStreamState,
    GetClusterParameter,
    GetDefaultRwConcern,
    ListSessions,
    ListShards,
    QuerySettings,
    QueryStatsRead,
    QueryStatsReadTransformed,
    RemoveShard,
    ReplSetConfigure,
    ReplSetGetConfig,
    ReplSetGetStatus,
    ReplSetStateChange,
    Resync,
    RunTenantMigration,
    SetChangeStreamState,
    SetClusterParameter,
    SetDefaultRwConcern,
    SetFeatureCompatibilityVersion,
    TransitionFromDedicatedConfigServer,
    TransitionToDedicatedConfigServer,
];
const HOST_MANAGER: &[Action] = &[
    ApplicationMessage,
    AuditConfigure,
    ConnPoolSync,
    DropConnections,
    FlushRouterConfig,
    Fsync,
    InvalidateUserCache,
    KillAnyCursor,
    KillAnySession,
    Killop,
    LogRotate,
    OidReset,
    OidcListKeys,
    OidcRefreshKeys,
    ReplSetResizeOplog,
    Resync,
    RotateCertificates,
    SetParameter,
    Shutdown,
    Touch,
    TrafficRecord,
    Unlock,
];

/// The built-in role of this name, where it exists on that database.
pub fn builtin(role: &RoleName) -> Option<&'static BuiltinRole> {
    BUILTIN
        .iter()
        .find(|r| r.name == role.name && r.is_on(&role.db))
}

/// The built-in roles of a database that are shown; internal ones are left out.
pub fn builtin_of(db: &str) -> impl Iterator<Item = &'static BuiltinRole> {
    BUILTIN.iter().filter(move |r| r.is_on(db))
}

impl BuiltinRole {
    /// Whether the role exists on a database.
    pub fn is_on(&self, db: &str) -> bool {
        (!self.admin_only || db == "admin") && db != "$external"
    }

    /// The roles it inherits, as a role of `db`.
    pub fn roles(&self, db: &str) -> Vec<RoleName> {
        self.inherits
            .iter()
            .map(|(name, of)| RoleName::new(name, of.unwrap_or(db)))
            .collect()
    }

    /// Its own privileges, as a role of `db`.
    pub fn privileges(&self, db: &str) -> Vec<Privilege> {
        let text = str::to_owned;
        let one = |(on, sets): &Row| Privilege {
            resource: match *on {
                On::Own => Resource::Database(text(db)),
                On::OwnColl(coll) => Resource::Exact(text(db), text(coll)),
                On::Cluster => Resource::Cluster,
                On::Any => Resource::Any,
                On::Normal => Resource::AnyNormal,
                On::Db(db) => Resource::Database(text(db)),
                On::Named(coll) => Resource::Collection(text(coll)),
                On::Exact(db, coll) => Resource::Exact(text(db), text(coll)),
                On::Buckets => Resource::AnyBuckets,
            },
            actions: sets
                .iter()
                .fold(ActionSet::NONE, |all, set| all.union(ActionSet::of(set))),
        };
        self.rows.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        assert!(BUILTIN.windows(2).all(|w| w[0].name < w[1].name));
        for r in BUILTIN {
            for inherited in r.roles("admin") {
                assert!(builtin(&inherited).is_some(), "{} has {inherited}", r.name);
            }
            assert!(
                r.admin_only || r.inherits.iter().all(|(_, db)| db.is_none()),
                "{} of any database reaches another",
                r.name
            );
        }
        assert!(builtin(&RoleName::new("root", "test")).is_none());
        assert!(builtin(&RoleName::new("read", "test")).is_some());
        assert!(builtin(&RoleName::new("read", "$external")).is_none());
    }
}
