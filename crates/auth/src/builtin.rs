//! The table of built-in roles. Source: MongoDB's manual page of built-in roles for 8.2, on which
//! clients and administrators rely.

use crate::action::Action::{self, *};
use crate::action::ActionSet;
use crate::names::RoleName;
use crate::privilege::Privilege;
use crate::resource::Resource;

/// The resource of a role's privilege; `Own` is the database that the role belongs to.
#[derive(Clone, Copy, Debug)]
enum RoleResource {
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

type Row = (RoleResource, &'static [&'static [Action]]);

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
                RoleResource::Any,
                &[&[CollStats, ListCollections, ListIndexes, ListSearchIndexes]],
            ),
            (RoleResource::Normal, &[FIND]),
            (RoleResource::Buckets, &[FIND]),
            (
                RoleResource::Cluster,
                &[&[GetParameter, ListDatabases, UseUuid]],
            ),
            (RoleResource::Db("config"), &[FIND]),
            (RoleResource::Db("local"), &[FIND]),
            (RoleResource::Exact("local", "replset.election"), &[FIND]),
            (RoleResource::Exact("local", "replset.minvalid"), &[FIND]),
            (RoleResource::Named("system.js"), &[FIND]),
            (RoleResource::Named("system.users"), &[FIND]),
            (RoleResource::Named("system.profile"), &[FIND]),
            (RoleResource::Exact("admin", "system.backup_users"), &[FIND]),
            (RoleResource::Exact("admin", "system.roles"), &[FIND]),
            (RoleResource::Exact("admin", "system.version"), &[FIND]),
            (RoleResource::Exact("config", "settings"), &[FIND]),
        ],
    },
    BuiltinRole {
        name: "__system",
        admin_only: true,
        inherits: &[],
        rows: &[(RoleResource::Any, &[Action::ALL])],
    },
    BuiltinRole {
        name: "backup",
        admin_only: true,
        inherits: &[("__queryableBackup", None)],
        rows: &[
            (
                RoleResource::Cluster,
                &[&[AppendOplogNote, ServerStatus, SetUserWriteBlockMode]],
            ),
            (
                RoleResource::Exact("config", "settings"),
                &[&[Insert, Update]],
            ),
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
            (RoleResource::Normal, &[&[DropDatabase]]),
            (RoleResource::Any, &[&[ExportCollection, ImportCollection]]),
        ],
    },
    BuiltinRole {
        name: "clusterManager",
        admin_only: true,
        inherits: &[("read", Some("config"))],
        rows: &[
            (RoleResource::Cluster, &[CLUSTER_MANAGER]),
            (RoleResource::Normal, &[SHARDING]),
            (RoleResource::Buckets, &[SHARDING]),
            (RoleResource::Db("config"), &[SHARDING, CHANGES]),
            (RoleResource::Db("local"), &[SHARDING, CHANGES]),
            (RoleResource::Exact("local", "system.replset"), &[READ]),
            (RoleResource::Any, &[&[DbCheck]]),
            (RoleResource::Exact("local", "system.healthlog"), &[READ]),
            (RoleResource::Exact("local", "replset.election"), &[CHANGES]),
            (RoleResource::Exact("local", "replset.minvalid"), &[CHANGES]),
        ],
    },
    BuiltinRole {
        name: "clusterMonitor",
        admin_only: true,
        inherits: &[("read", Some("config")), ("read", Some("local"))],
        rows: &[
            (RoleResource::Cluster, &[CLUSTER_MONITOR]),
            (RoleResource::Normal, &[STATISTICS]),
            (RoleResource::Db("config"), &[STATISTICS]),
            (
                RoleResource::Exact("config", "system.sessions"),
                &[STATISTICS],
            ),
            (RoleResource::Db("local"), &[STATISTICS]),
            (RoleResource::Exact("local", "system.replset"), &[FIND]),
            (RoleResource::Exact("local", "replset.election"), &[FIND]),
            (RoleResource::Exact("local", "replset.minvalid"), &[FIND]),
            (RoleResource::Named("system.profile"), &[FIND]),
        ],
    },
    BuiltinRole {
        name: "dbAdmin",
        admin_only: false,
        inherits: &[],
        rows: &[
            (RoleResource::Own, &[SCHEMA, QUERY_ANALYZER]),
            (RoleResource::OwnColl("system.profile"), &[READ, PROFILE]),
        ],
    },
    BuiltinRole {
        name: "dbAdminAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (RoleResource::Cluster, &[&[ListDatabases, ApplyOps]]),
            (RoleResource::Normal, &[SCHEMA, QUERY_ANALYZER]),
            (RoleResource::Named("system.profile"), &[READ, PROFILE]),
            (RoleResource::Buckets, &[SCHEMA]),
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
        rows: &[(RoleResource::Cluster, &[&[IssueDirectShardOperations]])],
    },
    BuiltinRole {
        name: "enableSharding",
        admin_only: false,
        inherits: &[],
        rows: &[(
            RoleResource::Normal,
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
            (RoleResource::Cluster, &[HOST_MANAGER]),
            (RoleResource::Normal, &[&[KillCursors]]),
        ],
    },
    BuiltinRole {
        name: "read",
        admin_only: false,
        inherits: &[],
        rows: &[
            (RoleResource::Own, &[READ]),
            (RoleResource::OwnColl("system.js"), &[READ]),
        ],
    },
    BuiltinRole {
        name: "readAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (RoleResource::Normal, &[READ]),
            (RoleResource::Cluster, &[&[ListDatabases]]),
            (RoleResource::Named("system.js"), &[READ]),
            (RoleResource::Buckets, &[READ]),
        ],
    },
    BuiltinRole {
        name: "readWrite",
        admin_only: false,
        inherits: &[],
        rows: &[
            (RoleResource::Own, &[READ, WRITE]),
            (RoleResource::OwnColl("system.js"), &[READ, WRITE]),
        ],
    },
    BuiltinRole {
        name: "readWriteAnyDatabase",
        admin_only: true,
        inherits: &[("readAnyDatabase", None)],
        rows: &[
            (RoleResource::Normal, &[READ, WRITE]),
            (RoleResource::Named("system.js"), &[READ, WRITE]),
            (RoleResource::Buckets, &[READ, WRITE]),
        ],
    },
    BuiltinRole {
        name: "restore",
        admin_only: true,
        inherits: &[],
        rows: &[
            (
                RoleResource::Cluster,
                &[&[
                    ApplyOps,
                    BypassWriteBlockingMode,
                    ForceUuid,
                    GetParameter,
                    SetUserWriteBlockMode,
                    UseUuid,
                ]],
            ),
            (RoleResource::Db("local"), &[LOAD]),
            (RoleResource::Db("config"), &[LOAD]),
            (RoleResource::Buckets, &[LOAD]),
            (RoleResource::Exact("local", "system.replset"), &[LOAD]),
            (RoleResource::Exact("local", "replset.election"), &[LOAD]),
            (RoleResource::Exact("local", "replset.minvalid"), &[LOAD]),
            (RoleResource::Any, &[&[ListCollections]]),
            (RoleResource::Normal, &[LOAD, USERS]),
            (RoleResource::Named("system.js"), &[LOAD]),
            (RoleResource::Exact("admin", "tempusers"), &[FIND]),
            (RoleResource::Exact("admin", "temproles"), &[FIND]),
            (RoleResource::Exact("admin", "system.backup_users"), &[LOAD]),
            (
                RoleResource::Exact("admin", "system.version"),
                &[LOAD, FIND],
            ),
            (
                RoleResource::Named("system.users"),
                &[LOAD, &[Find, Remove, Update]],
            ),
            (
                RoleResource::Exact("admin", "system.roles"),
                &[&[CreateIndex]],
            ),
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
            (RoleResource::Any, &[&[Validate]]),
            (RoleResource::Cluster, &[&[UseTenant]]),
            (
                RoleResource::Exact("config", "system.preimages"),
                &[&[Find, Remove]],
            ),
            (
                RoleResource::Exact("config", "system.change_collection"),
                &[FIND, CHANGES],
            ),
        ],
    },
    BuiltinRole {
        name: "userAdmin",
        admin_only: false,
        inherits: &[],
        rows: &[(RoleResource::Own, &[USERS])],
    },
    BuiltinRole {
        name: "userAdminAnyDatabase",
        admin_only: true,
        inherits: &[],
        rows: &[
            (RoleResource::Normal, &[USERS, &[ListCachedAndActiveUsers]]),
            (RoleResource::Db("local"), &[USERS]),
            (RoleResource::Db("config"), &[USERS]),
            (
                RoleResource::Cluster,
                &[&[
                    AuthSchemaUpgrade,
                    InvalidateUserCache,
                    ListDatabases,
                    ViewUser,
                ]],
            ),
            (
                RoleResource::Exact("admin", "system.users"),
                &[READ, INDEXES],
            ),
            (
                RoleResource::Exact("admin", "system.roles"),
                &[READ, INDEXES],
            ),
            (RoleResource::Named("system.users"), &[READ]),
            (RoleResource::Exact("admin", "system.version"), &[READ]),
            (RoleResource::Exact("admin", "system.backup_users"), &[READ]),
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
                RoleResource::Own => Resource::Database(text(db)),
                RoleResource::OwnColl(coll) => Resource::Exact(text(db), text(coll)),
                RoleResource::Cluster => Resource::Cluster,
                RoleResource::Any => Resource::Any,
                RoleResource::Normal => Resource::AnyNormal,
                RoleResource::Db(db) => Resource::Database(text(db)),
                RoleResource::Named(coll) => Resource::Collection(text(coll)),
                RoleResource::Exact(db, coll) => Resource::Exact(text(db), text(coll)),
                RoleResource::Buckets => Resource::AnyBuckets,
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
