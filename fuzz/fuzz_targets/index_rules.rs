//! Index rules, and index entries of a rule: | length of the rule 1 | rule | entry |.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lode_program::{Expr, IndexEntry, IndexRule, Program, may_match};

fuzz_target!(|bytes: &[u8]| {
    let Some((&len, rest)) = bytes.split_first() else { return };
    let (rule, entry) = rest.split_at(usize::from(len).min(rest.len()));
    let Ok(rule) = IndexRule::from_bytes(rule) else { return };
    assert_eq!(IndexRule::from_bytes(&rule.to_bytes()).as_ref(), Ok(&rule));
    let mut sized = entry.to_vec();
    sized.resize(rule.entry_bytes(), 0);
    for entry in [entry, &sized] {
        let Ok(e) = IndexEntry::decode(&rule, entry) else { continue };
        assert_eq!(e.as_bytes(), entry);
        assert_eq!(rule.denied(&e, &e), None);
        for column in rule.columns() {
            let filter = Expr::IsNull(Box::new(Expr::Column(*column)));
            let p = Program::check(rule.schema().clone(), Some(filter), vec![], false).expect("a program");
            let _ = (may_match(&p, &rule, &e), rule.bounds(&e, *column));
        }
    }
});
