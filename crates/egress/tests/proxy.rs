//! The proxy as a program inside meets it: honest requests, refused ones, and tricks.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sandkeep_egress::{Decision, Dialer, Outcome, Refusal, Resolve, Rules, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};

/// Names as a hostile name server gives them: another answer each time, if told so.
#[derive(Debug, Default)]
struct Names {
    answers: HashMap<String, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolve for Names {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.answers.get(name) {
            Some(answers) => Ok(answers[number.min(answers.len() - 1)].clone()),
            None => Err(io::Error::other("no such name")),
        }
    }
}

struct Sandbox {
    dialer: Dialer,
    told: Arc<Mutex<Vec<Decision>>>,
}

impl Sandbox {
    fn new(rules: &[&str], names: &[(&str, &[&[&str]])]) -> Self {
        let mut resolver = Names::default();
        for (name, answers) in names {
            let parsed = answers
                .iter()
                .map(|answer| answer.iter().map(|address| address.parse().unwrap()).collect())
                .collect();
            resolver.answers.insert((*name).to_owned(), parsed);
        }
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let rules = Rules::new(rules.iter().map(|rule| rule.parse().unwrap()).collect());
        let tell = Arc::new(move |decision| sink.lock().unwrap().push(decision));
        Self { dialer: Dialer::new(rules, Arc::new(resolver), tell), told }
    }

    fn connect(&self) -> DuplexStream {
        let (inside, outside) = duplex(64 * 1024);
        tokio::spawn(serve(outside, self.dialer.clone()));
        inside
    }

    /// Sends all, closes, and reads all.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.told.lock().unwrap().iter().map(|decision| decision.outcome.clone()).collect()
    }

    fn refusal(&self) -> Refusal {
        match self.outcomes().pop() {
            Some(Outcome::Refused(refusal)) => refusal,
            other => panic!("no refusal was told but {other:?}"),
        }
    }
}

/// A server of the world: gives what it was sent, whole requests, to the test.
async fn origin(answer: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_one(stream, answer, Arc::clone(&sink)));
        }
    });
    (port, seen)
}

async fn answer_one(mut stream: TcpStream, answer: &'static str, sink: Arc<Mutex<Vec<String>>>) {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        text.extend_from_slice(&buffer[..read]);
        let seen = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = seen.split_once("\r\n\r\n") else {
            if read == 0 {
                return;
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
        });
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        let whole = !head.contains("chunked") || body.ends_with("0\r\n\r\n");
        if whole && body.len() >= length {
            sink.lock().unwrap().push(seen);
            stream.write_all(answer.as_bytes()).await.unwrap();
            return;
        }
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_passes_each_end_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        // Ends only when the client's own end is passed on.
        stream.read_to_end(&mut got).await.unwrap();
        stream.write_all(b"answer after the end").await.unwrap();
        got
    });
    let sandbox = Sandbox::new(&[&format!("127.0.0.1:{port}")], &[]);
    let mut stream = sandbox.connect();
    let request = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    stream.write_all(&vec![7; 1 << 20]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer after the end");
    assert_eq!(server.await.unwrap().len(), 1 << 20);
    assert!(matches!(&sandbox.outcomes()[..], [Outcome::Allowed { .. }]));
}

#[tokio::test]
async fn a_plain_request_is_made_anew_without_what_was_meant_for_the_proxy() {
    let (port, seen) = origin(HELLO).await;
    let sandbox = Sandbox::new(&[&format!("127.0.0.1:{port}")], &[]);
    let answer = sandbox
        .say(&format!(
            "POST http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: evil.example\r\n\
             Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\n\
             Connection: X-Hop, close\r\nX-Hop: 1\r\nX-Kept: 2\r\nContent-Length: 4\r\n\r\nbody"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    let seen = seen.lock().unwrap().concat();
    assert!(seen.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{seen}");
    assert!(seen.to_lowercase().contains(&format!("host: 127.0.0.1:{port}\r\n")), "{seen}");
    assert!(seen.contains("X-Kept: 2") && seen.ends_with("\r\n\r\nbody"), "{seen}");
    for gone in ["evil", "Proxy", "X-Hop", "secret"] {
        assert!(!seen.contains(gone), "{gone} went out: {seen}");
    }
}

#[tokio::test]
async fn what_no_rule_names_is_refused_with_the_way_to_allow_it() {
    let sandbox = Sandbox::new(&["docs.example"], &[]);
    let answer = sandbox.say("CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("NotAllowed"), "{answer}");
    assert!(answer.contains("--allow evil.com:443"), "{answer}");
    let answer =
        sandbox.say("GET http://docs.example:22/ HTTP/1.1\r\nHost: docs.example\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(sandbox.outcomes().len(), 2, "every decision is told");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_whatever_it_leads_to_besides() {
    let (port, seen) = origin(HELLO).await;
    let named = format!("rebind.example:{port}");
    for answer in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "127.0.0.1"],
        &["::ffff:127.0.0.1"],
        &["10.1.2.3"],
        &["169.254.169.254"],
        &["fe80::1"],
        &["64:ff9b::7f00:1"],
        &["0.0.0.0"],
    ] {
        let sandbox = Sandbox::new(&[&named], &[("rebind.example", &[answer])]);
        let said = sandbox.say(&format!("GET http://{named}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("InnerAddress"), "{said}");
        assert!(matches!(sandbox.refusal(), Refusal::InnerAddress { .. }));
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_name_is_asked_for_once_and_the_checked_address_is_the_dialled_one() {
    let (port, seen) = origin(HELLO).await;
    // Checked as one address, it would be dialled as another if it were asked for twice.
    let named = format!("rebind.example:{port}");
    let rules = [named.as_str(), &format!("127.0.0.2:{port}")];
    let sandbox = Sandbox::new(&rules, &[("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]])]);
    let said = sandbox.say(&format!("GET http://{named}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    // Nobody listens on the first; the second, where the server is, is never dialled.
    assert!(said.starts_with("HTTP/1.1 502"), "{said}");
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_inner_address_is_reached_when_a_rule_names_it_and_by_a_name_that_leads_to_it() {
    let (port, _) = origin(HELLO).await;
    let (named, address) = (format!("local.example:{port}"), format!("127.0.0.1:{port}"));
    let sandbox = Sandbox::new(&[&named, &address], &[("local.example", &[&["127.0.0.1"]])]);
    for host in [&named, &address] {
        let said = sandbox.say(&format!("GET http://{host}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert!(said.ends_with("hello"), "{said}");
    }
    let sandbox = Sandbox::new(&[&address], &[("local.example", &[&["127.0.0.1"]])]);
    let said = sandbox.say(&format!("GET http://{named}/ HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    assert!(said.starts_with("HTTP/1.1 403"), "the name itself is not allowed: {said}");
}

#[tokio::test]
async fn smuggled_requests_are_refused_or_sent_as_one() {
    let (port, seen) = origin(HELLO).await;
    let sandbox = Sandbox::new(&[&format!("127.0.0.1:{port}")], &[]);
    let at = format!("http://127.0.0.1:{port}/");
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let tricks = [
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!(
            "POST {at} HTTP/1.1\r\nHost: x\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n{smuggled}"
        ),
        format!(
            "GET {at} HTTP/1.1\r\nHost: x\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n{smuggled}"
        ),
        format!("GET {at} HTTP/1.1\nHost: x\n\nGET http://evil.example/ HTTP/1.1\n\n"),
    ];
    for trick in tricks {
        seen.lock().unwrap().clear();
        sandbox.say(&trick).await;
        for request in seen.lock().unwrap().iter() {
            let head = request.split("\r\n\r\n").next().unwrap().to_lowercase();
            // One framing, and one request in one connection: the server cannot see two.
            assert!(
                !(head.contains("content-length") && head.contains("transfer-encoding")),
                "two framings went out for {trick:?}: {request}"
            );
            assert!(!request.contains("/smuggled") || !head.starts_with("post"), "{request}");
        }
    }
}

#[tokio::test]
async fn what_is_no_request_of_a_proxy_is_refused_and_told() {
    let sandbox = Sandbox::new(&["a.example", "*.b.example"], &[]);
    for bad in [
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET http://user:word@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "CONNECT user@a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET http://2130706433/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://0x7f.1/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let said = sandbox.say(bad).await;
        assert!(said.starts_with("HTTP/1.1 400"), "{bad:?}: {said}");
        assert!(matches!(sandbox.refusal(), Refusal::NotUnderstood(_)), "{bad:?}");
    }
    for garbage in
        ["\u{16}\u{3}\u{1}", "SSH-2.0-x\r\n", "GET http://a.example/\r\n\r\n", &"x".repeat(200_000)]
    {
        let said = sandbox.say(&garbage[..garbage.len().min(60_000)]).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
}

#[tokio::test]
async fn a_name_without_address_and_a_server_that_is_not_there_are_told_apart() {
    let sandbox = Sandbox::new(&["none.example:1", "127.0.0.1:1"], &[]);
    let said = sandbox.say("CONNECT none.example:1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 502") && said.contains("NotResolved"), "{said}");
    let said = sandbox.say("CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 502") && said.contains("NotReached"), "{said}");
}

#[tokio::test]
async fn several_requests_of_one_connection_are_each_decided() {
    let (port, seen) = origin(HELLO).await;
    let sandbox = Sandbox::new(&[&format!("127.0.0.1:{port}")], &[]);
    let at = format!("127.0.0.1:{port}");
    let said = sandbox
        .say(&format!(
            "GET http://{at}/1 HTTP/1.1\r\nHost: {at}\r\n\r\n\
             GET http://evil.example/2 HTTP/1.1\r\nHost: {at}\r\n\r\n\
             GET http://{at}/3 HTTP/1.1\r\nHost: {at}\r\n\r\n"
        ))
        .await;
    assert_eq!(said.matches("HTTP/1.1 200").count(), 2, "{said}");
    assert_eq!(said.matches("HTTP/1.1 403").count(), 1, "{said}");
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert_eq!(sandbox.outcomes().len(), 3);
}
