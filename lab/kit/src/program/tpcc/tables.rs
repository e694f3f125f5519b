//! The nine tables. In documents there are eight, because an order contains its lines.

use crate::records::Column::{Int, List, OptionalInt, Text};
use crate::records::RecordTable;

pub(in crate::program) const TABLES: &[&RecordTable] = &[
    &WAREHOUSE,
    &DISTRICT,
    &CUSTOMER,
    &HISTORY,
    &NEW_ORDER,
    &ORDERS,
    &ORDER_LINE,
    &ITEM,
    &STOCK,
];

pub(super) static WAREHOUSE: RecordTable = RecordTable {
    name: "warehouse",
    columns: &[
        ("w_id", Int),
        ("w_name", Text(10)),
        ("w_address", Text(71)),
        ("w_tax", Int),
        ("w_ytd", Int),
    ],
    key: &["w_id"],
    indexes: &[],
    only_flat: false,
};

pub(super) static DISTRICT: RecordTable = RecordTable {
    name: "district",
    columns: &[
        ("d_w_id", Int),
        ("d_id", Int),
        ("d_name", Text(10)),
        ("d_address", Text(71)),
        ("d_tax", Int),
        ("d_ytd", Int),
        ("d_next_o_id", Int),
    ],
    key: &["d_w_id", "d_id"],
    indexes: &[],
    only_flat: false,
};

pub(super) static CUSTOMER: RecordTable = RecordTable {
    name: "customer",
    columns: &[
        ("c_w_id", Int),
        ("c_d_id", Int),
        ("c_id", Int),
        ("c_first", Text(16)),
        ("c_last", Text(16)),
        ("c_address", Text(71)),
        ("c_credit", Text(2)),
        ("c_discount", Int),
        ("c_balance", Int),
        ("c_ytd_payment", Int),
        ("c_payment_cnt", Int),
        ("c_delivery_cnt", Int),
        ("c_data", Text(500)),
    ],
    key: &["c_w_id", "c_d_id", "c_id"],
    indexes: &[("c_name", &["c_w_id", "c_d_id", "c_last", "c_first"])],
    only_flat: false,
};

/// The specification has no key for this table; the lab numbers the records.
pub(super) static HISTORY: RecordTable = RecordTable {
    name: "history",
    columns: &[
        ("h_id", Int),
        ("h_c_w_id", Int),
        ("h_c_d_id", Int),
        ("h_c_id", Int),
        ("h_w_id", Int),
        ("h_d_id", Int),
        ("h_date", Int),
        ("h_amount", Int),
        ("h_data", Text(24)),
    ],
    key: &["h_id"],
    indexes: &[],
    only_flat: false,
};

pub(super) static NEW_ORDER: RecordTable = RecordTable {
    name: "new_order",
    columns: &[("no_w_id", Int), ("no_d_id", Int), ("no_o_id", Int)],
    key: &["no_w_id", "no_d_id", "no_o_id"],
    indexes: &[],
    only_flat: false,
};

pub(super) static ORDERS: RecordTable = RecordTable {
    name: "orders",
    columns: &[
        ("o_w_id", Int),
        ("o_d_id", Int),
        ("o_id", Int),
        ("o_c_id", Int),
        ("o_entry_d", Int),
        ("o_carrier_id", OptionalInt),
        ("o_ol_cnt", Int),
        ("o_all_local", Int),
        (
            "lines",
            List(&[
                ("ol_i_id", Int),
                ("ol_supply_w_id", Int),
                ("ol_quantity", Int),
                ("ol_amount", Int),
                ("ol_dist_info", Text(24)),
            ]),
        ),
        ("delivery_d", OptionalInt),
    ],
    key: &["o_w_id", "o_d_id", "o_id"],
    indexes: &[("o_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])],
    only_flat: false,
};

pub(super) static ORDER_LINE: RecordTable = RecordTable {
    name: "order_line",
    columns: &[
        ("ol_w_id", Int),
        ("ol_d_id", Int),
        ("ol_o_id", Int),
        ("ol_number", Int),
        ("ol_i_id", Int),
        ("ol_supply_w_id", Int),
        ("ol_delivery_d", OptionalInt),
        ("ol_quantity", Int),
        ("ol_amount", Int),
        ("ol_dist_info", Text(24)),
    ],
    key: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
    indexes: &[],
    only_flat: true,
};

pub(super) static ITEM: RecordTable = RecordTable {
    name: "item",
    columns: &[
        ("i_id", Int),
        ("i_im_id", Int),
        ("i_name", Text(24)),
        ("i_price", Int),
        ("i_data", Text(50)),
    ],
    key: &["i_id"],
    indexes: &[],
    only_flat: false,
};

/// The ten texts of the districts are one text of ten times the length; an order line takes the
/// district's part of it.
pub(super) static STOCK: RecordTable = RecordTable {
    name: "stock",
    columns: &[
        ("s_w_id", Int),
        ("s_i_id", Int),
        ("s_quantity", Int),
        ("s_dist", Text(240)),
        ("s_ytd", Int),
        ("s_order_cnt", Int),
        ("s_remote_cnt", Int),
        ("s_data", Text(50)),
    ],
    key: &["s_w_id", "s_i_id"],
    indexes: &[],
    only_flat: false,
};
