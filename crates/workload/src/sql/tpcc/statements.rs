//! The statements of the transactions. Source: TPC-C 5.11, appendix A, in SQL without cursors.

/// Names the statements of a terminal, and gives their texts in the same order.
macro_rules! statements {
    ($($name:ident: $text:expr,)*) => {
        /// A statement of a terminal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Name {
            $($name,)*
        }

        /// The texts of all statements, in the order of their names.
        pub(super) const TEXTS: &[&str] = &[$($text,)*];
    };
}

statements! {
    Warehouse: "SELECT * FROM warehouse WHERE w_id = $1",
    PayWarehouse: "UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1",
    District: "SELECT * FROM district WHERE d_w_id = $1 AND d_id = $2",
    PayDistrict: "UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2",
    TakeOrderNumber: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
    Customer: "SELECT * FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    CustomersNamed: "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 \
        ORDER BY c_first, c_id",
    StorePayment: "UPDATE customer SET c_balance = $4, c_ytd_payment = $5, c_payment_cnt = $6 \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    StorePaymentWithData: "UPDATE customer SET c_balance = $4, c_ytd_payment = $5, c_payment_cnt = $6, c_data = $7 \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    DeliverTo: "UPDATE customer SET c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1 \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    Item: "SELECT * FROM item WHERE i_id = $1",
    Stock1: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_01 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock2: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_02 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock3: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_03 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock4: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_04 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock5: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_05 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock6: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_06 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock7: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_07 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock8: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_08 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock9: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_09 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    Stock10: "SELECT s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_dist_10 FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
    StoreStock: "UPDATE stock SET s_quantity = $3, s_ytd = $4, s_order_cnt = $5, s_remote_cnt = $6 \
        WHERE s_w_id = $1 AND s_i_id = $2",
    LastOrder: "SELECT * FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
    Order: "SELECT * FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
    Lines: "SELECT * FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
    OldestNewOrder: "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1",
    RemoveNewOrder: "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    Carry: "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
    CarriedFor: "SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
    DeliverLines: "UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    Amount: "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    LowStock: "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_i_id = ol_i_id \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_w_id = $1 AND s_quantity < $5",
    AddHistory: "INSERT INTO history VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    AddOrder: "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    AddNewOrder: "INSERT INTO new_order VALUES ($1, $2, $3)",
    AddLine: "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
}

/// The statement that reads what New-Order needs of the stock, for each district.
pub(super) const STOCK: [Name; 10] = [
    Name::Stock1,
    Name::Stock2,
    Name::Stock3,
    Name::Stock4,
    Name::Stock5,
    Name::Stock6,
    Name::Stock7,
    Name::Stock8,
    Name::Stock9,
    Name::Stock10,
];
