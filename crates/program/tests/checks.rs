//! Programs that are refused: ill-typed, too large, or evaluated differently by drive and host.

mod common;

use common::schema;
use lode_page::{DataType, Value};
use lode_program::{ArithOp, CompareOp, Expr, Program, ProgramError, type_of};

const fn dec(precision: u8, scale: u8) -> DataType {
    DataType::Decimal { precision, scale }
}

const TYPES: [DataType; 7] = [
    DataType::Integer,
    DataType::BigInt,
    DataType::Text,
    DataType::Boolean,
    dec(15, 2),
    dec(38, 4),
    DataType::Date,
];

fn col(c: u16) -> Box<Expr> {
    Box::new(Expr::Column(c))
}

fn check(e: Expr) -> Result<(), ProgramError> {
    Program::check(schema(&TYPES), Some(e), vec![], false).map(|_| ())
}

fn arith(op: ArithOp, a: u16, b: u16) -> Result<DataType, ProgramError> {
    type_of(&schema(&TYPES), &Expr::Arith(op, col(a), col(b)))
}

fn cast(c: u16, to: DataType) -> Result<DataType, ProgramError> {
    type_of(&schema(&TYPES), &Expr::Cast(col(c), to))
}

fn ill_typed<T: std::fmt::Debug>(got: Result<T, ProgramError>) {
    assert!(matches!(got, Err(ProgramError::Type(_))), "{got:?}");
}

#[test]
fn types_go_together_or_not() {
    ill_typed(check(Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Column(1))));
    ill_typed(check(Expr::compare(CompareOp::Eq, Expr::Column(4), Expr::Column(5))));
    ill_typed(check(Expr::Column(0)));
    ill_typed(check(Expr::Not(col(0))));
    ill_typed(check(Expr::And(vec![Expr::Column(3), Expr::Column(2)])));
    ill_typed(check(Expr::Like { value: col(0), pattern: "%".into(), case_insensitive: false }));
    ill_typed(arith(ArithOp::Add, 0, 1));
    ill_typed(arith(ArithOp::Add, 2, 2));
    ill_typed(arith(ArithOp::Sub, 6, 6));
    ill_typed(arith(ArithOp::Mul, 5, 4));
    assert_eq!(arith(ArithOp::Mul, 4, 4), Ok(dec(31, 4)));
    assert_eq!(arith(ArithOp::Add, 4, 4), Ok(dec(16, 2)));
    // The result is as wide as needed. Nothing is wider than BIGINT.
    assert_eq!(arith(ArithOp::Add, 0, 0), Ok(DataType::BigInt));
    check(Expr::Column(3)).unwrap();
}

#[test]
fn casts_lose_nothing() {
    assert_eq!(cast(0, DataType::BigInt), Ok(DataType::BigInt));
    assert_eq!(cast(0, dec(12, 2)), Ok(dec(12, 2)));
    assert_eq!(cast(4, dec(17, 4)), Ok(dec(17, 4)));
    ill_typed(cast(0, dec(11, 2)));
    ill_typed(cast(0, DataType::SmallInt));
    ill_typed(cast(1, DataType::Double));
    ill_typed(cast(4, dec(16, 4)));
    ill_typed(cast(4, dec(38, 1)));
    ill_typed(cast(6, DataType::Timestamp));
    ill_typed(cast(0, dec(0, 0)));
    ill_typed(cast(0, dec(39, 0)));
    ill_typed(cast(0, dec(5, 9)));
}

#[test]
fn columns_and_constants_are_what_they_say() {
    assert!(matches!(check(Expr::IsNull(col(7))), Err(ProgramError::NoSuchColumn { column: 7, columns: 7 })));
    let p = Program::check(schema(&TYPES), None, vec![0, 7], false);
    assert!(matches!(p, Err(ProgramError::NoSuchColumn { column: 7, .. })));
    let bad = |v, t| {
        assert!(matches!(
            check(Expr::IsNull(Box::new(Expr::Const(v, t)))),
            Err(ProgramError::BadConstant { .. })
        ))
    };
    bad(Value::Int(1 << 40), DataType::Integer);
    bad(Value::text("x"), DataType::Integer);
    bad(Value::Bytes([0xff].into()), DataType::Text);
    bad(Value::Decimal(1000), dec(3, 1));
    let list = vec![Value::Int(1), Value::text(&"long".repeat(1000))];
    let got = check(Expr::In { value: col(0), list }).unwrap_err();
    assert!(got.to_string().len() < 200, "{got}");
}

#[test]
fn programs_are_bounded() {
    let nested = |n| (0..n).fold(Expr::Column(3), |e, _| Expr::Not(Box::new(e)));
    check(nested(63)).unwrap();
    let large =
        |got: Result<(), ProgramError>| assert!(matches!(got, Err(ProgramError::TooLarge { .. })), "{got:?}");
    large(check(nested(64)));
    check(Expr::Or(vec![Expr::Column(3); 4095])).unwrap();
    large(check(Expr::Or(vec![Expr::Column(3); 4096])));
    let list = |n| Expr::In { value: col(0), list: vec![Value::Int(1); n] };
    check(list(65_536)).unwrap();
    large(check(list(65_537)));
    let like = |n| Expr::Like { value: col(2), pattern: "_".repeat(n), case_insensitive: false };
    check(like(4096)).unwrap();
    large(check(like(4097)));
}

#[test]
fn what_could_differ_from_the_host_is_refused() {
    let refused = |e| assert!(matches!(check(e), Err(ProgramError::Unsupported(_))));
    refused(Expr::Like { value: col(2), pattern: "a%".into(), case_insensitive: true });
    refused(Expr::In { value: col(0), list: vec![] });
    let one = || Box::new(Expr::Const(Value::Double(1.0), DataType::Double));
    refused(Expr::IsNull(Box::new(Expr::Arith(ArithOp::Add, one(), one()))));
}

/// Nested lists must not multiply the size of the plan.
#[test]
fn nested_lists_stay_small() {
    let list = vec![Value::Boolean(true), Value::Boolean(false), Value::Null];
    let e = (0..60).fold(Expr::Column(3), |e, _| Expr::In { value: Box::new(e), list: list.clone() });
    check(e).unwrap();
}

#[test]
fn a_run_time_filter_is_added_to_the_filter() {
    let p = Program::check(schema(&TYPES), Some(Expr::Column(3)), vec![2, 0], true).unwrap();
    let more = p.with_filter(Expr::IsNull(col(0))).unwrap().with_filter(Expr::IsNull(col(6))).unwrap();
    assert_eq!(more.filter_columns(), [0, 3, 6]);
    assert_eq!((more.projection(), more.slots()), (p.projection(), true));
    assert!(matches!(more.filter(), Some(Expr::And(terms)) if terms.len() == 3));
    assert!(p.with_filter(Expr::Column(0)).is_err());
    assert!(more.link_bytes() > p.link_bytes());
}
