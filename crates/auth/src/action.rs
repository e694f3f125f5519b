//! Actions, which privileges allow, and sets of them.

/// Declares the actions with MongoDB's names.
macro_rules! actions {
    ($($ident:ident $name:literal)*) => {
        /// What a privilege allows to be done. Names are MongoDB's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Action { $($ident),* }

        impl Action {
            /// All of them, by name.
            pub const ALL: &'static [Action] = &[$(Action::$ident),*];

            /// Its name in privileges.
            pub fn name(self) -> &'static str {
                match self { $(Action::$ident => $name),* }
            }
        }
    };
}

actions! {
    AddShard "addShard"
    AdvanceClusterTime "advanceClusterTime"
    AllCollectionStats "allCollectionStats"
    Analyze "analyze"
    AnalyzeShardKey "analyzeShardKey"
    AnyAction "anyAction"
    AppendOplogNote "appendOplogNote"
    ApplicationMessage "applicationMessage"
    ApplyOps "applyOps"
    AuditConfigure "auditConfigure"
    AuditLogRotate "auditLogRotate"
    AuthCheck "authCheck"
    AuthSchemaUpgrade "authSchemaUpgrade"
    Authenticate "authenticate"
    BypassDocumentValidation "bypassDocumentValidation"
    BypassWriteBlockingMode "bypassWriteBlockingMode"
    ChangeCustomData "changeCustomData"
    ChangeOwnCustomData "changeOwnCustomData"
    ChangeOwnPassword "changeOwnPassword"
    ChangePassword "changePassword"
    ChangeStream "changeStream"
    CheckFreeMonitoringStatus "checkFreeMonitoringStatus"
    CheckMetadataConsistency "checkMetadataConsistency"
    CleanupOrphaned "cleanupOrphaned"
    CleanupStructuredEncryptionData "cleanupStructuredEncryptionData"
    ClearJumboFlag "clearJumboFlag"
    CloseAllDatabases "closeAllDatabases"
    CollMod "collMod"
    CollStats "collStats"
    Compact "compact"
    CompactStructuredEncryptionData "compactStructuredEncryptionData"
    ConfigureQueryAnalyzer "configureQueryAnalyzer"
    ConnPoolStats "connPoolStats"
    ConnPoolSync "connPoolSync"
    ConvertToCapped "convertToCapped"
    CpuProfiler "cpuProfiler"
    CreateCollection "createCollection"
    CreateDatabase "createDatabase"
    CreateIndex "createIndex"
    CreateRole "createRole"
    CreateSearchIndexes "createSearchIndexes"
    CreateUser "createUser"
    DbCheck "dbCheck"
    DbHash "dbHash"
    DbStats "dbStats"
    DropAllRolesFromDatabase "dropAllRolesFromDatabase"
    DropAllUsersFromDatabase "dropAllUsersFromDatabase"
    DropCollection "dropCollection"
    DropConnections "dropConnections"
    DropDatabase "dropDatabase"
    DropIndex "dropIndex"
    DropRole "dropRole"
    DropSearchIndex "dropSearchIndex"
    DropUser "dropUser"
    EmptyCapped "emptycapped"
    EnableProfiler "enableProfiler"
    EnableSharding "enableSharding"
    ExportCollection "exportCollection"
    Find "find"
    FlushRouterConfig "flushRouterConfig"
    ForceUuid "forceUUID"
    Fsync "fsync"
    FsyncUnlock "fsyncUnlock"
    GetChangeStreamState "getChangeStreamState"
    GetClusterParameter "getClusterParameter"
    GetCmdLineOpts "getCmdLineOpts"
    GetDatabaseVersion "getDatabaseVersion"
    GetDefaultRwConcern "getDefaultRWConcern"
    GetLog "getLog"
    GetParameter "getParameter"
    GetShardMap "getShardMap"
    GetShardVersion "getShardVersion"
    GrantPrivilegesToRole "grantPrivilegesToRole"
    GrantRole "grantRole"
    GrantRolesToRole "grantRolesToRole"
    GrantRolesToUser "grantRolesToUser"
    HostInfo "hostInfo"
    Impersonate "impersonate"
    ImportCollection "importCollection"
    IndexStats "indexStats"
    Inprog "inprog"
    Insert "insert"
    Internal "internal"
    InvalidateUserCache "invalidateUserCache"
    IssueDirectShardOperations "issueDirectShardOperations"
    KillAnyCursor "killAnyCursor"
    KillAnySession "killAnySession"
    KillCursors "killCursors"
    Killop "killop"
    ListCachedAndActiveUsers "listCachedAndActiveUsers"
    ListCollections "listCollections"
    ListCursors "listCursors"
    ListDatabases "listDatabases"
    ListIndexes "listIndexes"
    ListSampledQueries "listSampledQueries"
    ListSearchIndexes "listSearchIndexes"
    ListSessions "listSessions"
    ListShards "listShards"
    LogRotate "logRotate"
    MoveChunk "moveChunk"
    MoveCollection "moveCollection"
    Netstat "netstat"
    OidReset "oidReset"
    OidcListKeys "oidcListKeys"
    OidcRefreshKeys "oidcRefreshKeys"
    OperationMetrics "operationMetrics"
    PlanCacheIndexFilter "planCacheIndexFilter"
    PlanCacheRead "planCacheRead"
    PlanCacheWrite "planCacheWrite"
    QuerySettings "querySettings"
    QueryStatsRead "queryStatsRead"
    QueryStatsReadTransformed "queryStatsReadTransformed"
    ReIndex "reIndex"
    RefineCollectionShardKey "refineCollectionShardKey"
    Remove "remove"
    RemoveShard "removeShard"
    RenameCollection "renameCollection"
    RenameCollectionSameDb "renameCollectionSameDB"
    RepairDatabase "repairDatabase"
    ReplSetConfigure "replSetConfigure"
    ReplSetGetConfig "replSetGetConfig"
    ReplSetGetStatus "replSetGetStatus"
    ReplSetHeartbeat "replSetHeartbeat"
    ReplSetReconfig "replSetReconfig"
    ReplSetResizeOplog "replSetResizeOplog"
    ReplSetStateChange "replSetStateChange"
    ReshardCollection "reshardCollection"
    Resync "resync"
    RevokePrivilegesFromRole "revokePrivilegesFromRole"
    RevokeRole "revokeRole"
    RevokeRolesFromRole "revokeRolesFromRole"
    RevokeRolesFromUser "revokeRolesFromUser"
    RotateCertificates "rotateCertificates"
    RunAsLessPrivilegedUser "runAsLessPrivilegedUser"
    RunTenantMigration "runTenantMigration"
    ServerStatus "serverStatus"
    SetAuthenticationRestriction "setAuthenticationRestriction"
    SetChangeStreamState "setChangeStreamState"
    SetClusterParameter "setClusterParameter"
    SetDefaultRwConcern "setDefaultRWConcern"
    SetFeatureCompatibilityVersion "setFeatureCompatibilityVersion"
    SetFreeMonitoring "setFreeMonitoring"
    SetParameter "setParameter"
    SetUserWriteBlockMode "setUserWriteBlockMode"
    ShardCollection "shardCollection"
    ShardedDataDistribution "shardedDataDistribution"
    ShardingState "shardingState"
    Shutdown "shutdown"
    SplitChunk "splitChunk"
    SplitVector "splitVector"
    StorageDetails "storageDetails"
    Top "top"
    Touch "touch"
    TrafficRecord "trafficRecord"
    TransitionFromDedicatedConfigServer "transitionFromDedicatedConfigServer"
    TransitionToDedicatedConfigServer "transitionToDedicatedConfigServer"
    Unlock "unlock"
    Update "update"
    UpdateRole "updateRole"
    UpdateSearchIndex "updateSearchIndex"
    UpdateUser "updateUser"
    UseTenant "useTenant"
    UseUuid "useUUID"
    Validate "validate"
    ViewRole "viewRole"
    ViewUser "viewUser"
}

impl Action {
    /// The action of this name.
    pub fn parse(name: &str) -> Option<Action> {
        let at = Action::ALL.binary_search_by(|a| a.name().cmp(name)).ok()?;
        Action::ALL.get(at).copied()
    }
}

const WORDS: usize = 3;
const _: () = assert!(Action::ALL.len() <= WORDS * 64);

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionSet([u64; WORDS]);

impl ActionSet {
    /// No action.
    pub const NONE: ActionSet = ActionSet([0; WORDS]);
    /// Every action.
    pub const ALL: ActionSet = ActionSet::of(Action::ALL);

    /// The set of these actions.
    pub const fn of(actions: &[Action]) -> ActionSet {
        let mut set = [0; WORDS];
        let mut at = 0;
        while at < actions.len() {
            let bit = actions[at] as usize;
            set[bit / 64] |= 1 << (bit % 64);
            at += 1;
        }
        ActionSet(set)
    }

    /// Adds one; `anyAction` adds all.
    pub fn add(&mut self, action: Action) {
        *self = self.union(match action {
            Action::AnyAction => ActionSet::ALL,
            one => ActionSet::of(&[one]),
        });
    }

    /// The union of both sets.
    pub fn union(self, other: ActionSet) -> ActionSet {
        ActionSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The actions that are not in `other`.
    pub fn minus(self, other: ActionSet) -> ActionSet {
        ActionSet(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// Whether the action is in it.
    pub fn has(self, action: Action) -> bool {
        let bit = action as usize;
        self.0[bit / 64] & (1 << (bit % 64)) != 0
    }

    /// Whether the set includes all of `other`.
    pub fn covers(self, other: ActionSet) -> bool {
        other.minus(self).is_empty()
    }

    /// Whether nothing is in it.
    pub fn is_empty(self) -> bool {
        self == ActionSet::NONE
    }

    /// Its actions in the order of their names; the full set is `anyAction`.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        let whole = self == ActionSet::ALL;
        let shown = move |a: &Action| {
            if whole {
                *a == Action::AnyAction
            } else {
                self.has(*a)
            }
        };
        Action::ALL.iter().copied().filter(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_so_that_they_are_found() {
        assert!(Action::ALL.windows(2).all(|w| w[0].name() < w[1].name()));
        assert!(
            Action::ALL
                .iter()
                .all(|a| Action::parse(a.name()) == Some(*a))
        );
        assert_eq!(Action::parse("Find"), None);
    }

    #[test]
    fn sets() {
        let mut set = ActionSet::of(&[Action::Find, Action::ViewUser]);
        assert!(set.has(Action::ViewUser) && !set.has(Action::Insert));
        assert!(set.covers(ActionSet::of(&[Action::Find])) && !set.covers(ActionSet::ALL));
        set = set.minus(ActionSet::of(&[Action::Find]));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Action::ViewUser]);
        set.add(Action::AnyAction);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Action::AnyAction]);
    }
}
