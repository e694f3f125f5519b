//! MongoDB's named error codes. Codes without a name are "locations" and are written where they are
//! raised.

macro_rules! codes {
    ($($ident:ident = $num:literal $name:literal;)*) => {
        $(#[doc = $name] pub const $ident: i32 = $num;)*
        const NAMES: &[(i32, &str)] = &[$(($num, $name)),*];
    };
}

codes! {
    INTERNAL_ERROR = 1 "InternalError";
    BAD_VALUE = 2 "BadValue";
    NO_SUCH_KEY = 4 "NoSuchKey";
    GRAPH_CONTAINS_CYCLE = 5 "GraphContainsCycle";
    HOST_UNREACHABLE = 6 "HostUnreachable";
    HOST_NOT_FOUND = 7 "HostNotFound";
    UNKNOWN_ERROR = 8 "UnknownError";
    FAILED_TO_PARSE = 9 "FailedToParse";
    CANNOT_MUTATE_OBJECT = 10 "CannotMutateObject";
    USER_NOT_FOUND = 11 "UserNotFound";
    UNSUPPORTED_FORMAT = 12 "UnsupportedFormat";
    UNAUTHORIZED = 13 "Unauthorized";
    TYPE_MISMATCH = 14 "TypeMismatch";
    OVERFLOW = 15 "Overflow";
    INVALID_LENGTH = 16 "InvalidLength";
    PROTOCOL_ERROR = 17 "ProtocolError";
    AUTHENTICATION_FAILED = 18 "AuthenticationFailed";
    CANNOT_REUSE_OBJECT = 19 "CannotReuseObject";
    ILLEGAL_OPERATION = 20 "IllegalOperation";
    EMPTY_ARRAY_OPERATION = 21 "EmptyArrayOperation";
    INVALID_BSON = 22 "InvalidBSON";
    ALREADY_INITIALIZED = 23 "AlreadyInitialized";
    LOCK_TIMEOUT = 24 "LockTimeout";
    REMOTE_VALIDATION_ERROR = 25 "RemoteValidationError";
    NAMESPACE_NOT_FOUND = 26 "NamespaceNotFound";
    INDEX_NOT_FOUND = 27 "IndexNotFound";
    PATH_NOT_VIABLE = 28 "PathNotViable";
    NON_EXISTENT_PATH = 29 "NonExistentPath";
    INVALID_PATH = 30 "InvalidPath";
    ROLE_NOT_FOUND = 31 "RoleNotFound";
    ROLES_NOT_RELATED = 32 "RolesNotRelated";
    PRIVILEGE_NOT_FOUND = 33 "PrivilegeNotFound";
    CANNOT_BACKFILL_ARRAY = 34 "CannotBackfillArray";
    USER_MODIFICATION_FAILED = 35 "UserModificationFailed";
    REMOTE_CHANGE_DETECTED = 36 "RemoteChangeDetected";
    FILE_RENAME_FAILED = 37 "FileRenameFailed";
    FILE_NOT_OPEN = 38 "FileNotOpen";
    FILE_STREAM_FAILED = 39 "FileStreamFailed";
    CONFLICTING_UPDATE_OPERATORS = 40 "ConflictingUpdateOperators";
    FILE_ALREADY_OPEN = 41 "FileAlreadyOpen";
    LOG_WRITE_FAILED = 42 "LogWriteFailed";
    CURSOR_NOT_FOUND = 43 "CursorNotFound";
    USER_DATA_INCONSISTENT = 45 "UserDataInconsistent";
    LOCK_BUSY = 46 "LockBusy";
    NO_MATCHING_DOCUMENT = 47 "NoMatchingDocument";
    NAMESPACE_EXISTS = 48 "NamespaceExists";
    INVALID_ROLE_MODIFICATION = 49 "InvalidRoleModification";
    MAX_TIME_MS_EXPIRED = 50 "MaxTimeMSExpired";
    MANUAL_INTERVENTION_REQUIRED = 51 "ManualInterventionRequired";
    DOLLAR_PREFIXED_FIELD_NAME = 52 "DollarPrefixedFieldName";
    INVALID_ID_FIELD = 53 "InvalidIdField";
    NOT_SINGLE_VALUE_FIELD = 54 "NotSingleValueField";
    INVALID_DB_REF = 55 "InvalidDBRef";
    EMPTY_FIELD_NAME = 56 "EmptyFieldName";
    DOTTED_FIELD_NAME = 57 "DottedFieldName";
    ROLE_MODIFICATION_FAILED = 58 "RoleModificationFailed";
    COMMAND_NOT_FOUND = 59 "CommandNotFound";
    DATABASE_NOT_FOUND = 60 "DatabaseNotFound";
    SHARD_KEY_NOT_FOUND = 61 "ShardKeyNotFound";
    OPLOG_OPERATION_UNSUPPORTED = 62 "OplogOperationUnsupported";
    WRITE_CONCERN_FAILED = 64 "WriteConcernFailed";
    MULTIPLE_ERRORS_OCCURRED = 65 "MultipleErrorsOccurred";
    IMMUTABLE_FIELD = 66 "ImmutableField";
    CANNOT_CREATE_INDEX = 67 "CannotCreateIndex";
    INDEX_ALREADY_EXISTS = 68 "IndexAlreadyExists";
    AUTH_SCHEMA_INCOMPATIBLE = 69 "AuthSchemaIncompatible";
    SHARD_NOT_FOUND = 70 "ShardNotFound";
    REPLICA_SET_NOT_FOUND = 71 "ReplicaSetNotFound";
    INVALID_OPTIONS = 72 "InvalidOptions";
    INVALID_NAMESPACE = 73 "InvalidNamespace";
    NODE_NOT_FOUND = 74 "NodeNotFound";
    WRITE_CONCERN_LEGACY_OK = 75 "WriteConcernLegacyOK";
    NO_REPLICATION_ENABLED = 76 "NoReplicationEnabled";
    OPERATION_INCOMPLETE = 77 "OperationIncomplete";
    COMMAND_RESULT_SCHEMA_VIOLATION = 78 "CommandResultSchemaViolation";
    UNKNOWN_REPL_WRITE_CONCERN = 79 "UnknownReplWriteConcern";
    ROLE_DATA_INCONSISTENT = 80 "RoleDataInconsistent";
    NO_MATCH_PARSE_CONTEXT = 81 "NoMatchParseContext";
    NO_PROGRESS_MADE = 82 "NoProgressMade";
    REMOTE_RESULTS_UNAVAILABLE = 83 "RemoteResultsUnavailable";
    INDEX_OPTIONS_CONFLICT = 85 "IndexOptionsConflict";
    INDEX_KEY_SPECS_CONFLICT = 86 "IndexKeySpecsConflict";
    CANNOT_SPLIT = 87 "CannotSplit";
    NETWORK_TIMEOUT = 89 "NetworkTimeout";
    CALLBACK_CANCELED = 90 "CallbackCanceled";
    SHUTDOWN_IN_PROGRESS = 91 "ShutdownInProgress";
    SECONDARY_AHEAD_OF_PRIMARY = 92 "SecondaryAheadOfPrimary";
    INVALID_REPLICA_SET_CONFIG = 93 "InvalidReplicaSetConfig";
    NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE = 103
        "NewReplicaSetConfigurationIncompatible";
    NOT_YET_INITIALIZED = 94 "NotYetInitialized";
    NOT_SECONDARY = 95 "NotSecondary";
    OPERATION_FAILED = 96 "OperationFailed";
    NO_PROJECTION_FOUND = 97 "NoProjectionFound";
    DB_PATH_IN_USE = 98 "DBPathInUse";
    UNSATISFIABLE_WRITE_CONCERN = 100 "UnsatisfiableWriteConcern";
    OUTDATED_CLIENT = 101 "OutdatedClient";
    INCOMPATIBLE_AUDIT_METADATA = 102 "IncompatibleAuditMetadata";
    INITIAL_SYNC_ACTIVE = 105 "InitialSyncActive";
    COMMAND_NOT_SUPPORTED = 115 "CommandNotSupported";
    DOC_TOO_LARGE_FOR_CAPPED = 116 "DocTooLargeForCapped";
    CONFLICTING_OPERATION_IN_PROGRESS = 117 "ConflictingOperationInProgress";
    NAMESPACE_NOT_SHARDED = 118 "NamespaceNotSharded";
    DOCUMENT_VALIDATION_FAILURE = 121 "DocumentValidationFailure";
    NOT_A_REPLICA_SET = 123 "NotAReplicaSet";
    INCOMPATIBLE_ELECTION_PROTOCOL = 124 "IncompatibleElectionProtocol";
    COMMAND_FAILED = 125 "CommandFailed";
    RPC_PROTOCOL_NEGOTIATION_FAILED = 126 "RPCProtocolNegotiationFailed";
    UNRECOVERABLE_ROLLBACK_ERROR = 127 "UnrecoverableRollbackError";
    LOCK_NOT_FOUND = 128 "LockNotFound";
    CAPPED_POSITION_LOST = 136 "CappedPositionLost";
    INCOMPATIBLE_COLLATION_VERSION = 161 "IncompatibleCollationVersion";
    COLLECTION_IS_EMPTY = 162 "CollectionIsEmpty";
    VIEW_DEPTH_LIMIT_EXCEEDED = 165 "ViewDepthLimitExceeded";
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166 "CommandNotSupportedOnView";
    OPTION_NOT_SUPPORTED_ON_VIEW = 167 "OptionNotSupportedOnView";
    INVALID_PIPELINE_OPERATOR = 168 "InvalidPipelineOperator";
    COMMAND_ON_SHARDED_VIEW_NOT_SUPPORTED_ON_MONGOD = 169
        "CommandOnShardedViewNotSupportedOnMongod";
    CANNOT_IMPLICITLY_CREATE_COLLECTION = 227 "CannotImplicitlyCreateCollection";
    QUERY_PLAN_KILLED = 175 "QueryPlanKilled";
    CANNOT_CREATE_COLLECTION = 177 "CannotCreateCollection";
    JS_INTERPRETER_FAILURE = 139 "JSInterpreterFailure";
    FAILED_TO_SATISFY_READ_PREFERENCE = 133 "FailedToSatisfyReadPreference";
    RESOURCE_EXHAUSTED = 402 "ResourceExhausted";
    QUERY_REJECTED_BY_SETTINGS = 411 "QueryRejectedBySettings";
    READ_CONCERN_MAJORITY_NOT_ENABLED = 148 "ReadConcernMajorityNotEnabled";
    BSON_OBJECT_TOO_LARGE = 10334 "BSONObjectTooLarge";
    DUPLICATE_KEY = 11000 "DuplicateKey";
    INTERRUPTED_AT_SHUTDOWN = 11600 "InterruptedAtShutdown";
    INTERRUPTED = 11601 "Interrupted";
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602 "InterruptedDueToReplStateChange";
    NOT_WRITABLE_PRIMARY = 10107 "NotWritablePrimary";
    NOT_PRIMARY_NO_SECONDARY_OK = 13435 "NotPrimaryNoSecondaryOk";
    OUT_OF_DISK_SPACE = 14031 "OutOfDiskSpace";
    CLIENT_MARKED_KILLED = 46841 "ClientMarkedKilled";
    INVALID_VIEW_DEFINITION = 182 "InvalidViewDefinition";
    INVALID_INDEX_SPECIFICATION_OPTION = 197 "InvalidIndexSpecificationOption";
    INVALID_UUID = 207 "InvalidUUID";
    TOO_MANY_LOCKS = 208 "TooManyLocks";
    NO_SUCH_SESSION = 206 "NoSuchSession";
    STALE_CHUNK_HISTORY = 226 "StaleChunkHistory";
    KEY_NOT_FOUND = 211 "KeyNotFound";
    JSON_SCHEMA_NOT_ALLOWED = 214 "JSONSchemaNotAllowed";
    TRANSACTION_TOO_OLD = 225 "TransactionTooOld";
    SSL_HANDSHAKE_FAILED = 141 "SSLHandshakeFailed";
    EXCEEDED_MEMORY_LIMIT = 146 "ExceededMemoryLimit";
    QUERY_FEATURE_NOT_ALLOWED = 224 "QueryFeatureNotAllowed";
    MAX_SUB_PIPELINE_DEPTH_EXCEEDED = 232 "MaxSubPipelineDepthExceeded";
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263 "OperationNotSupportedInTransaction";
    TOO_MANY_LOGICAL_SESSIONS = 261 "TooManyLogicalSessions";
    EXCEEDED_TIME_LIMIT = 262 "ExceededTimeLimit";
    CURSOR_IN_USE = 12051 "CursorInUse";
    CURSOR_KILLED = 237 "CursorKilled";
    NOT_IMPLEMENTED = 238 "NotImplemented";
    SNAPSHOT_TOO_OLD = 239 "SnapshotTooOld";
    CLIENT_METADATA_DOCUMENT_TOO_LARGE = 185 "ClientMetadataDocumentTooLarge";
    CONVERSION_FAILURE = 241 "ConversionFailure";
    SNAPSHOT_UNAVAILABLE = 246 "SnapshotUnavailable";
    NO_SUCH_TRANSACTION = 251 "NoSuchTransaction";
    TRANSACTION_COMMITTED = 256 "TransactionCommitted";
    TRANSACTION_TOO_LARGE = 257 "TransactionTooLarge";
    UNKNOWN_FEATURE_COMPATIBILITY_VERSION = 258 "UnknownFeatureCompatibilityVersion";
    KEYED_EXECUTOR_RETRY = 259 "KeyedExecutorRetry";
    INVALID_RESUME_TOKEN = 260 "InvalidResumeToken";
    WRITE_CONFLICT = 112 "WriteConflict";
    INVALID_IDX_SPEC = 304 "InvalidIndexSpec";
    UNSUPPORTED_OP_QUERY_COMMAND = 352 "UnsupportedOpQueryCommand";
    USER_WRITES_BLOCKED = 371 "UserWritesBlocked";
    CANNOT_CONVERT_INDEX_TO_UNIQUE = 359 "CannotConvertIndexToUnique";
    API_VERSION_ERROR = 322 "APIVersionError";
    API_STRICT_ERROR = 323 "APIStrictError";
    API_DEPRECATION_ERROR = 324 "APIDeprecationError";
    CANNOT_DOWNGRADE = 332 "CannotDowngrade";
    PREPARED_TRANSACTION_IN_PROGRESS = 267 "PreparedTransactionInProgress";
    CLIENT_DISCONNECT = 279 "ClientDisconnect";
    CHANGE_STREAM_FATAL_ERROR = 280 "ChangeStreamFatalError";
    CHANGE_STREAM_HISTORY_LOST = 286 "ChangeStreamHistoryLost";
    QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED = 292
        "QueryExceededMemoryLimitNoDiskUseAllowed";
    DATA_CORRUPTION_DETECTED = 301 "DataCorruptionDetected";
    MECHANISM_UNAVAILABLE = 334 "MechanismUnavailable";
    REAUTHENTICATION_REQUIRED = 391 "ReauthenticationRequired";
    SEARCH_NOT_ENABLED = 31082 "SearchNotEnabled";
    IDL_FAILED_TO_PARSE = 40415 "IDLFailedToParse";
    IDL_DUPLICATE_FIELD = 40413 "IDLDuplicateField";
    IDL_MISSING_FIELD = 40414 "IDLMissingField";
    INGRESS_REQUEST_RATE_LIMIT_EXCEEDED = 462 "IngressRequestRateLimitExceeded";
    GEO_KEY_EXTRACTION_FAILED = 510 "GeoKeyExtractionFailed";
    GEO_KEY_EXTRACTION_FAILED_TIMESERIES = 511 "GeoKeyExtractionFailedTimeseries";
    COMMAND_NOT_SUPPORTED_ON_LEGACY_TIMESERIES_BUCKETS = 441
        "CommandNotSupportedOnLegacyTimeseriesBucketsNamespace";
}

/// The name of a code.
pub fn name(code: i32) -> String {
    match code {
        // Codes that are sent as locations.
        IDL_FAILED_TO_PARSE | IDL_DUPLICATE_FIELD | IDL_MISSING_FIELD => format!("Location{code}"),
        _ => NAMES
            .iter()
            .find(|(n, _)| *n == code)
            .map_or_else(|| format!("Location{code}"), |(_, name)| (*name).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_and_names_are_unique() {
        let mut seen = std::collections::BTreeSet::new();
        for (n, name) in super::NAMES {
            assert!(
                seen.insert(n.to_string()) && seen.insert((*name).to_owned()),
                "{n} {name} twice"
            );
        }
    }
}
