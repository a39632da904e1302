-- `events NAME` and the bound on each sandbox's events must not walk the whole timeline.
CREATE INDEX event_by_sandbox ON event (sandbox, sequence);
