// Package deploycheck checks the deployments under deploy without a cluster and without Docker: the Compose file
// against its schema, manifests against the types of Kubernetes and of the operators they are for, and what the Helm
// chart renders. It is a module of its own, so that none of these types enter Headgate's modules.
package deploycheck
