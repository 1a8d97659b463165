package main

import (
	"encoding/json"
	"fmt"
	"time"
)

// A paceOrder says how a load of constant rate is to be.
type paceOrder struct {
	Address     string
	Connections int
	Rate        float64       // requests a second
	Warming     time.Duration // in which answers are not recorded yet
	Length      time.Duration // after that
	Patience    time.Duration // how long the last answer may take
}

// String is the order as a child is told it.
func (o paceOrder) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("a rate of %v: %v", o.Rate, err))
	}
	return string(text)
}

func (o *paceOrder) parse(text string) error { return json.Unmarshal([]byte(text), o) }

// A pacing is what came of it. Times are in nanoseconds, from when a request was due to when its answer had come.
type pacing struct {
	Requests            int64
	P50, P99, P999, Max int64
	// Late is how much later requests were sent than they could be, p99: what the load itself adds. A request could be sent
	// when it was due and a connection was free.
	Late int64
}
