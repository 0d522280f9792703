//! A front-end of one's own: keys and values over TCP, a line for each request.
//!
//! ```text
//!   GET key            VALUE value, or NONE            client ─ line ─► thread of its connection ─► transaction ─► lode
//!   PUT key value      OK, durable                            ◄ line ─┘
//!   DEL key            OK, durable
//!   FROM key count     a line "key value" each, then END
//! ```
//!
//! A front-end needs the crate `lode` alone. Each connection has a thread, and each request is a transaction: any number may be
//! open, and readers wait for nobody. `docs/extending.md` says what else a front-end may do.
//!
//! `cargo run -p lode --example front_end -- [FILE [ADDRESS]]`, then for example `nc 127.0.0.1 4781`

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use lode::{Database, EngineError, Tree};

/// Serves this many connections, each on a thread of its own, and returns when all have ended.
pub(crate) fn serve(
    listener: &TcpListener,
    db: &Database,
    tree: &Tree,
    connections: usize,
) -> io::Result<()> {
    std::thread::scope(|threads| {
        for stream in listener.incoming().take(connections) {
            let stream = stream?;
            threads.spawn(move || {
                // A client that goes away ends its own connection.
                if let Err(e) = connection(stream, db, tree) {
                    eprintln!("a connection ended: {e}");
                }
            });
        }
        Ok(())
    })
}

fn connection(stream: TcpStream, db: &Database, tree: &Tree) -> io::Result<()> {
    let mut out = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        // What a request does wrong is told to its client, in a line.
        let answer = request(&line?, db, tree).unwrap_or_else(|e| format!("ERROR {e}"));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn request(line: &str, db: &Database, tree: &Tree) -> Result<String, EngineError> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", key] => {
            let value = db.begin()?.get(tree, key.as_bytes())?;
            Ok(value.map_or("NONE".into(), |v| format!("VALUE {}", String::from_utf8_lossy(&v))))
        }
        ["PUT", key, value] => change(db, tree, key, Some(value)),
        ["DEL", key] => change(db, tree, key, None),
        ["FROM", key, count] => {
            let (txn, mut answer) = (db.begin()?, String::new());
            let mut range = txn.scan(tree, key.as_bytes()..)?;
            for _ in 0..count.parse::<u32>().unwrap_or(0) {
                let Some((key, value)) = range.next()? else { break };
                answer += &format!("{} {}\n", String::from_utf8_lossy(key), String::from_utf8_lossy(&value));
            }
            Ok(answer + "END")
        }
        _ => Ok("ERROR the requests are GET key, PUT key value, DEL key, FROM key count".into()),
    }
}

/// Writes or deletes a key, durably. If another transaction changed the key meanwhile, it runs again.
fn change(db: &Database, tree: &Tree, key: &str, value: Option<&str>) -> Result<String, EngineError> {
    loop {
        let mut txn = db.begin()?;
        match value {
            Some(value) => txn.put(tree, key.as_bytes(), value.as_bytes())?,
            None => txn.delete(tree, key.as_bytes())?,
        };
        match txn.commit() {
            Ok(_) => return Ok("OK".into()),
            Err(EngineError::Conflict { .. }) => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let db = Database::open(args.next().unwrap_or_else(|| "front_end.lode".into()))?;
    let tree = db.create_tree("pairs", true)?;
    let listener = TcpListener::bind(args.next().unwrap_or_else(|| "127.0.0.1:4781".into()))?;
    println!("{}: until Ctrl-C; what was answered is safe", listener.local_addr()?);
    serve(&listener, &db, &tree, usize::MAX)?;
    Ok(())
}
