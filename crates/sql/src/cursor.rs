//! DECLARE, FETCH, MOVE and CLOSE. The cursors themselves are in `cursors.rs`.

use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CloseCursor, Declare, DeclareType, FetchDirection, Ident, SetExpr, Statement as Sql,
};

use crate::cursors::{Cursor, no_cursor};
use crate::error::state;
use crate::statement::{OutputNames, StatementResult, fold};
use crate::{Session, SqlError};

impl Session {
    /// `DECLARE name CURSOR FOR query`.
    pub(crate) async fn declare_cursor(
        &self,
        declared: &[Declare],
        columns: Option<OutputNames>,
    ) -> Result<StatementResult, SqlError> {
        let [
            Declare {
                names,
                declare_type: Some(DeclareType::Cursor),
                binary,
                scroll,
                hold,
                for_query: Some(query),
                ..
            },
        ] = declared
        else {
            return Err(SqlError::Unsupported("DECLARE of anything but a cursor".into()));
        };
        let [name] = names.as_slice() else {
            return Err(SqlError::failed(state::SYNTAX_ERROR, "DECLARE takes one cursor"));
        };
        let refused = [(*binary, "BINARY"), (*scroll, "SCROLL")];
        if let Some((_, what)) = refused.iter().find(|(asked, _)| *asked == Some(true)) {
            return Err(SqlError::Unsupported(format!("DECLARE CURSOR {what}")));
        }
        let name = fold(name);
        if let SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) =
            query.body.as_ref()
        {
            let message = format!("DECLARE CURSOR takes a query, not {change}");
            return Err(SqlError::failed(state::SYNTAX_ERROR, message));
        }
        let transactions = self.transactions();
        let (hold, savepoints) = (*hold == Some(true), transactions.savepoints());
        if savepoints.is_none() && !hold {
            return Err(SqlError::NoTransaction("DECLARE CURSOR"));
        }
        if transactions.has_cursor(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::failed(state::DUPLICATE_CURSOR, message));
        }
        let query = Parsed::Statement(Box::new(Sql::Query(query.clone())));
        let StatementResult::Rows { schema, stream } = self.query(query).await?.named(columns.as_ref())
        else {
            unreachable!("a query answers rows");
        };
        let no_scroll = *scroll == Some(false);
        let stream = Some(stream);
        transactions.put_cursor(Cursor {
            name,
            savepoints: savepoints.unwrap_or_default(),
            hold,
            held: savepoints.is_none(),
            no_scroll,
            schema,
            stream,
            ahead: None,
            position: 0,
            current: None,
        });
        Ok(StatementResult::done("DECLARE CURSOR"))
    }

    /// FETCH, and MOVE if the rows are not wanted.
    pub(crate) async fn fetch(
        &self,
        name: &Ident,
        direction: &FetchDirection,
        moves: bool,
    ) -> Result<StatementResult, SqlError> {
        let name = fold(name);
        let transactions = self.transactions();
        let mut cursor = transactions.take_cursor(&name).ok_or_else(|| no_cursor(&name))?;
        let range = cursor.range(direction)?;
        let (batches, rows) = cursor.fetch(range, !moves).await?;
        let schema = cursor.schema.clone();
        transactions.put_cursor(cursor);
        if moves {
            return Ok(StatementResult::Count { verb: "MOVE", rows });
        }
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
        Ok(StatementResult::Rows { schema, stream })
    }

    /// `CLOSE name | ALL`.
    pub(crate) fn close_cursor(&self, which: &CloseCursor) -> Result<StatementResult, SqlError> {
        let transactions = self.transactions();
        match which {
            CloseCursor::All => {
                drop(transactions.take_cursors());
                Ok(StatementResult::done("CLOSE CURSOR ALL"))
            }
            CloseCursor::Specific { name } => {
                let name = fold(name);
                drop(transactions.take_cursor(&name).ok_or_else(|| no_cursor(&name))?);
                Ok(StatementResult::done("CLOSE CURSOR"))
            }
        }
    }
}
