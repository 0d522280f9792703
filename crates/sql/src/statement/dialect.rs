//! PostgreSQL's dialect, with the right precedence of IS DISTINCT FROM.
//!
//! ```text
//!   a IS DISTINCT FROM b AND c   ─►   (a IS DISTINCT FROM b) AND c
//! ```
//!
//! sqlparser takes everything after FROM for the right side, including AND and OR.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{ColumnOption, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The dialect of all statements.
#[derive(Debug)]
pub(super) struct LodeDialect;

const BASE: PostgreSqlDialect = PostgreSqlDialect {};

/// Methods that PostgreSQL's dialect overrides.
macro_rules! as_postgresql {
    ($($name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self $(, $argument: $of)*) -> $result { BASE.$name($($argument),*) })*
    };
}

impl Dialect for LodeDialect {
    /// The parser checks the dialect's type at some places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    /// The parser takes some words of other dialects behind a column, and then leaves them out.
    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        const OF_OTHERS: [Keyword; 7] = [
            Keyword::AUTO_INCREMENT,
            Keyword::AUTOINCREMENT,
            Keyword::ASC,
            Keyword::DESC,
            Keyword::AS,
            Keyword::SRID,
            Keyword::IDENTITY,
        ];
        match &parser.peek_token_ref().token {
            Token::Word(w) if OF_OTHERS.contains(&w.keyword) => {
                parser.expected_ref("',' or ')' after column definition", parser.peek_token_ref())
            }
            _ => Ok(None),
        }
    }

    fn parse_infix(&self, parser: &mut Parser<'_>, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        let is_not = parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]);
        if !is_not && !parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            return None;
        }
        let left = Box::new(expr.clone());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        Some(right.map(|right| match is_not {
            true => Expr::IsNotDistinctFrom(left, right),
            false => Expr::IsDistinctFrom(left, right),
        }))
    }

    as_postgresql! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>;
        prec_value(precedence: Precedence) -> u8;
        supports_unicode_string_literal() -> bool;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_named_fn_args_with_expr_name() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Expr;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::LodeDialect;

    /// The operators from the root to the left, and to the right.
    fn shape(e: &Expr) -> String {
        match e {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", shape(left), shape(right)),
            Expr::IsDistinctFrom(l, r) => format!("[{} is not {}]", shape(l), shape(r)),
            Expr::IsNotDistinctFrom(l, r) => format!("[{} is {}]", shape(l), shape(r)),
            Expr::Nested(inner) => shape(inner),
            other => other.to_string(),
        }
    }

    #[test]
    fn is_distinct_from_binds_tighter_than_and_or() {
        let check = |sql: &str, expected: &str| {
            let e = Parser::new(&LodeDialect).try_with_sql(sql).unwrap().parse_expr().unwrap();
            assert_eq!(shape(&e), expected, "{sql}");
        };
        check("a IS DISTINCT FROM b AND c", "([a is not b] AND c)");
        check("x AND a IS NOT DISTINCT FROM b OR c", "((x AND [a is b]) OR c)");
        check("a IS DISTINCT FROM b + 1 = c", "[a is not ((b + 1) = c)]");
        check("a IS DISTINCT FROM (b AND c)", "[a is not (b AND c)]");
        check("a = b IS DISTINCT FROM c", "[(a = b) is not c]");
    }
}
