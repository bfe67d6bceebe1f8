// Package check has no code of its own: its tests hold what is in the other folders of deploy against what it is meant for.
// Manifests are rendered as kubectl does and held against the schemas of Kubernetes, the compose file is read by Compose's own
// loader, the Dockerfile by BuildKit's parser, and the queries of the dashboard and the alerts by Prometheus' parser, against
// what a running sara says at /metrics. It is a module by itself so that all of these stay out of sara's, and it knows sara as
// a binary only: the one that SARA_BINARY names, or one that it builds.
package check
