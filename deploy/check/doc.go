// Package check has tests only: they check the files in the other folders of deploy with the programs that read those files.
// Manifests are rendered as by kubectl and checked against the schemas of Kubernetes. The Compose file is loaded by Compose's
// own loader, the Dockerfile by BuildKit's parser, and the queries of the dashboard and the alerts by Prometheus' parser,
// which are then checked against the metrics of a running sara. Its module, deploy, keeps all of these libraries out of
// sara's.
package check
