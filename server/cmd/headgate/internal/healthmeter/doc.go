// Package healthmeter measures the rates of a node's heartbeats: requests that are decided without the store, because
// it fails, and the duration of store calls.
package healthmeter
