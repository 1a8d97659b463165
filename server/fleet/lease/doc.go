// Package lease takes units from a shared store before they are needed, so that one store call serves many decisions.
package lease
