// Sara serves the Search Analytics Read API over Google Search Console, and administers its accounts, keys and properties.
//
// One binary: serve runs the API, demo runs it with a simulated Search Console, and the other commands change or list the contents of the
// database. They print a table or, with --json, one JSON object or array. Commands that people run in sequence, such as account add,
// workspace add and key create, print the next one on standard error, but not with --json. The commands are in internal/command, and the
// packages beside it are the parts that they share. This package has what belongs to the process: signals, limits and the protection of
// its memory.
//
// Status shows an operator the health of all replicas, Redis, the database, the object store, connections, archive, index coverage and
// budgets. It is read-only and consumes no budget. A part that it cannot read shows the reason, and the others are shown. The exit
// status is 1 if something needs attention: a replica that is not ready or degraded, or whose circuit breaker of more than one connection
// is open; Redis, the database or the object store unreachable, or a schema of another version; a connection that does not work, or whose
// credentials no secret key opens; a property for which the last run failed; an archive two or more days behind, or index coverage a week
// old or older; a part that could not be read. Budgets near their limit are shown, but do not count. Health checks, for a probe, whether
// one server is ready; its only setting is the address of the admin endpoints.
//
// Report is a client of a running server's public API, and so is subject to its limits. It writes the figures of many properties into
// files. What it cannot read is listed, and the exit status is 1; everything else is written, and a later run resumes.
//
// MCP is a client of a server's MCP endpoint, for programs that start MCP servers as processes: package relay forwards their messages. It
// uses no database; its key comes from SARA_API_KEY or a file.
//
// A flag wins over the environment (SARA_…), and that over the YAML file. Errors go to standard error and name the fix. An error about a
// setting names it, its origin, the problem and the fix, and all wrong settings are reported at once. The exit status is 2 for a command
// line that cannot be parsed or has a value that is never valid, a setting's too, 128 plus the number of the signal for a command that one
// interrupted, and 1 for every other error: also for a setting in the environment or in a file. An unknown variable SARA_… is an error.
// Only account add, migrate, restore and serve create a database file. No output, log or error has a secret, except for key create and key
// rotate, which print the new key once, and for demo, whose keys open nothing but the demo.
//
// Serve sends OpenTelemetry traces by OTLP over HTTP if OTEL_TRACES_EXPORTER is otlp or OTEL_EXPORTER_OTLP_ENDPOINT is set;
// otherwise tracing is off and costs nothing. The standard variables configure it, from the environment only. Wrong values are
// errors at the start, like those of settings. An unavailable collector is logged and delays no request. SARA_ACCESS_LOG_SAMPLE
// samples the access log: each line of a successful request has the fraction, and every error has a line.
package main
