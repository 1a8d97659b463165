// Package webhook notifies other programs of new revisions of a namespace: each change is sent as a signed HTTP request
// to every webhook of its namespace, and sent again until it is accepted.
//
// A Service stores webhooks and their deliveries in the database of the rules service. A delivery that was not accepted
// after the last attempt is kept as a dead letter, and can be sent again. A Receiver is the other side: the HTTP
// handler of a program that is notified. Programs in other languages verify requests as package signature describes.
package webhook
