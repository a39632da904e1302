//! The reconciler: queue, observe, execute, report.
