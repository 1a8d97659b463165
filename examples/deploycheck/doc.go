// Package deploycheck checks the files in deploy/ without a cluster and without Docker: the Compose file against its
// schema, and the Kubernetes manifests and the output of the Helm chart against the Go types of Kubernetes and of the
// operators. It is a module of its own, so that none of these types enter Headgate's modules.
package deploycheck
