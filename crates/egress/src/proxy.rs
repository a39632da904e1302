//! One connection of a program inside, spoken to as an HTTP proxy.
//!
//! `CONNECT` becomes a tunnel. A plain request is taken apart and made anew: what goes out has the
//! host that was checked, one framing, and nothing that was meant for the proxy. Parsing is hyper's,
//! in both directions, so that what is checked is what is sent.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;

use crate::dial::{Dialer, Refusal};
use crate::rule::Host;

type Body = BoxBody<Bytes, hyper::Error>;

/// More than any client sends; each costs memory before anything is known of the request.
const MOST_HEADER_BYTES: usize = 64 * 1024;
const MOST_HEADERS: usize = 128;
/// As for the frames of the session.
const COPY_BYTES: usize = 64 * 1024;
const REASON: HeaderName = HeaderName::from_static("x-sandkeep-reason");

/// Serves one connection to its end.
pub async fn serve<S>(stream: S, dialer: Dialer)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let dialer = dialer.clone();
        async move { Ok::<_, Infallible>(answer(request, &dialer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(MOST_HEADER_BYTES)
        .max_headers(MOST_HEADERS)
        .half_close(true)
        .preserve_header_case(true)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the proxy ended");
    }
}

async fn answer(request: Request<Incoming>, dialer: &Dialer) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        tunnel(request, dialer).await
    } else {
        forward(request, dialer).await
    };
    answered.unwrap_or_else(|refusal| refused(&refusal))
}

async fn tunnel(request: Request<Incoming>, dialer: &Dialer) -> Result<Response<Body>, Refusal> {
    let asked = request.uri().to_string();
    let target = request
        .uri()
        .authority()
        .and_then(|authority| Some((host(authority)?, authority.port_u16()?)));
    let Some((host, port)) = target else {
        return Err(dialer.refuse(&asked, "CONNECT names HOST:PORT"));
    };
    let stream = dialer.connect(&host, port).await?;
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => carry(TokioIo::new(upgraded), stream).await,
            Err(error) => tracing::debug!(%error, "a tunnel was not taken up"),
        }
    });
    Ok(Response::new(empty()))
}

/// Both directions until both ended; the end of one is passed on.
async fn carry(mut inside: TokioIo<hyper::upgrade::Upgraded>, mut outside: TcpStream) {
    let copied =
        copy_bidirectional_with_sizes(&mut inside, &mut outside, COPY_BYTES, COPY_BYTES).await;
    if let Err(error) = copied {
        tracing::debug!(%error, "a tunnel broke off");
    }
}

async fn forward(
    mut request: Request<Incoming>,
    dialer: &Dialer,
) -> Result<Response<Body>, Refusal> {
    let asked = request.uri().to_string();
    if request.uri().scheme_str() != Some("http") {
        let why = "a plain request has the form GET http://HOST/PATH; https goes by CONNECT";
        return Err(dialer.refuse(&asked, why));
    }
    let target = request.uri().authority().cloned().and_then(|authority| {
        Some((host(&authority)?, authority.port_u16().unwrap_or(80), authority))
    });
    let Some((host, port, authority)) = target else {
        return Err(dialer.refuse(&asked, "the address names no host, or a user"));
    };
    let Some(rebuilt) = origin_form(request.uri()) else {
        return Err(dialer.refuse(&asked, "the address has no path"));
    };
    let stream = dialer.connect(&host, port).await?;
    *request.uri_mut() = rebuilt;
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(header::HOST, host);
    }
    let not_reached = |why: hyper::Error| Refusal::NotReached {
        host: host.to_string(),
        port,
        why: why.to_string(),
    };
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(not_reached)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a forwarded request broke off");
        }
    });
    let mut response = sender.send_request(request).await.map_err(not_reached)?;
    strip(response.headers_mut());
    Ok(response.map(BodyExt::boxed))
}

/// A host that a rule can name; nobody's name and password before it.
fn host(authority: &Authority) -> Option<Host> {
    if authority.as_str().contains('@') {
        return None;
    }
    authority.host().parse().ok()
}

fn origin_form(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder().path_and_query(path).build().ok()
}

/// Takes away what is between two neighbours only: what `Connection` names, and what always is.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        // The framing is hyper's own affair; a client that names it is up to something.
        if name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            headers.remove(name);
        }
    }
    for name in [
        header::CONNECTION,
        header::PROXY_AUTHORIZATION,
        header::PROXY_AUTHENTICATE,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ] {
        headers.remove(name);
    }
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let (status, reason) = match refusal {
        Refusal::NotUnderstood(_) => (StatusCode::BAD_REQUEST, "NotUnderstood"),
        Refusal::NotAllowed { .. } => (StatusCode::FORBIDDEN, "NotAllowed"),
        Refusal::InnerAddress { .. } => (StatusCode::FORBIDDEN, "InnerAddress"),
        Refusal::NotResolved { .. } => (StatusCode::BAD_GATEWAY, "NotResolved"),
        Refusal::NotReached { .. } => (StatusCode::BAD_GATEWAY, "NotReached"),
    };
    let text = Full::new(Bytes::from(format!("sandkeep: {refusal}\n")));
    let mut response = Response::new(text.map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(REASON, HeaderValue::from_static(reason));
    response
}

fn empty() -> Body {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed()
}
