// Package webhook notifies other programs of new revisions and of alerts of a namespace: each is sent as a signed HTTP
// request to the webhooks of its namespace that ask for it, and sent again until it is accepted.
//
// A Service stores webhooks and their deliveries in the database of the rules service. A delivery that was not accepted
// after the last attempt is kept as a dead letter, and can be sent again. A Receiver is the other side: the HTTP
// handler of a program that is notified. Programs in other languages verify requests as package signature describes.
package webhook
