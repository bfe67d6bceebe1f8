// Package check has only tests: they check the files in the other folders of deploy with the programs that read those files.
// Manifests are rendered as kubectl does and checked against Kubernetes' schemas. The Compose file is loaded by Compose's
// own loader, and the Dockerfile by BuildKit's parser. The queries of the dashboard and the alerts are parsed by Prometheus' parser,
// and then checked against the metrics of a running sara. The module, deploy, keeps all of these libraries out of
// sara's.
package check
