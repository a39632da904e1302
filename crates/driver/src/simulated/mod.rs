//! A simulated world with a driver on it: engines, backings, workspaces and supervisors that live
//! on virtual time and fail on order or by a seed.
//!
//! ```text
//!  SimulatedDriver --calls--> Endpoint --reaches--> Engine { backings, workspaces }
//!        |                       | down, hung, slow, leads to another engine
//!        +-- Faults: what happens to effect k; every other call by a seeded chance
//! ```
//!
//! The world is the truth that a test compares a gateway's word with. It notes at once what must
//! never happen ([`World::violations`]): two live backings of one id, two live holders of one
//! workspace, a workspace that is removed without leave or made a second time, a run that is
//! carried out again after its end was acknowledged.
//!
//! Deliberately absent: records, intent, decisions. A driver for real use.

mod acts;
mod backing;
mod driver;
mod engine;
mod fault;
mod rng;
mod speak;
mod supervisor;
mod trace;
mod work;
mod world;

pub use backing::{SimBacking, SimState};
pub use driver::SimulatedDriver;
pub use engine::{Engine, Reach, SimWorkspace};
pub use fault::{Disturbance, FaultKind, Faults, Rates};
pub use rng::Rng;
pub use supervisor::{Execution, GoUnheard, MainCommand, SimSupervisor, SupervisorView};
pub use trace::Trace;
pub use work::NO_IMAGE;
pub use world::{EffectFate, Pace, World};
