// Package webhook notifies other programs of new revisions and alerts. A webhook is a URL that receives the events of
// one namespace.
//
// A [Service] sends each event as a signed HTTP request, and retries until the response is successful. It stores
// webhooks and deliveries in the database of the rules service. A delivery that fails in the last attempt is kept as a
// dead letter, which [Service.Retry] sends again.
//
// A [Receiver] is an HTTP handler that verifies and receives such requests. Package signature describes the signature
// for programs in other languages.
package webhook
