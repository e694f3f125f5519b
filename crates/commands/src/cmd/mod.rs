//! One file per command; small related commands share one. Each file exports `COMMANDS`, which
//! [`FAMILIES`] joins. Must not know: the dispatcher.

use context::command::Command;

pub(crate) mod followed;

/// Declares the files of the commands, and their table.
macro_rules! commands {
    ($($module:ident),* $(,)?) => {
        $(pub(crate) mod $module;)*
        /// All commands, family by family.
        pub(crate) static FAMILIES: &[&[Command]] = &[$($module::COMMANDS),*];
    };
}

// Add a line here for a new command.
commands! {
    access_info,
    admin,
    aggregate,
    apply_ops,
    audit,
    build_info,
    bulk_write,
    capped,
    check,
    cluster_parameter,
    coll_mod,
    count,
    create,
    default_concern,
    distinct,
    drop,
    encryption,
    explain,
    fail_point,
    fcv,
    file_md5,
    find,
    get_more,
    hello,
    indexes,
    insert,
    list,
    map_reduce,
    member,
    merge_access,
    modify,
    operations,
    oplog,
    pair,
    parameter,
    ping,
    plan_cache,
    query_settings,
    replication,
    role,
    sasl,
    search_index,
    server_status,
    session,
    shutdown,
    stats,
    status,
    transaction,
    user,
    user_writes,
}
