// Sara serves the Search Analytics Read API over Google Search Console, and administers what it serves.
//
// One binary, one file a subcommand: serve runs the API, demo runs all of it with a simulated Search Console, and the
// others change or list what the database holds. Every one of those prints a table for people or, with --json, one JSON
// object or array for programs.
//
// Commands that a person runs one after the other, such as account add, workspace add and key create, say on standard error
// which one comes next; never with --json.
//
// The command status is the operator's view: how every replica, Redis, the database, connections, archive, index coverage
// and budgets are. Each part says what it could not learn, and keeps no other from being told. It changes nothing, and spends
// nothing of what it counts. The exit status is 1 if something needs attention: a replica that is not ready, or degraded;
// Redis or the database out of reach, or a schema of another version; a connection that does not work; an archive that is two
// days or more behind, and index coverage that is a week old or older; a part that could not be learned. Budgets near their end
// are told, and are no reason. The command health asks one server whether it gets requests, for a probe: it needs no setting
// but the address of the admin endpoints.
//
// A setting is given by flag, by environment (SARA_…) or by a YAML file, in that order of precedence. Errors go to
// standard error and say what to do: one of a setting names it, where it comes from unless that is the environment, what is
// wrong with it and how it has to be, and all that are wrong are told at once. The exit status is 1 for them and 2 for a
// command line that is not understood. No output, log or error holds a secret, with one exception: key create prints the key
// that it makes, once.
//
// Serve sends OpenTelemetry traces by OTLP over HTTP if OTEL_TRACES_EXPORTER is otlp or OTEL_EXPORTER_OTLP_ENDPOINT says where
// to; without, there are none, and they cost nothing. The standard variables say the rest. They are read from the environment
// only, wrong values are errors at the start as those of settings are, and a collector that is away is told of in the log and
// keeps nothing from being answered. The access log can be thinned out by SARA_ACCESS_LOG_SAMPLE: lines of successes are then
// a share of all, which they name, and errors have a line each.
package main
