package main

import (
	"os"
	"testing"
)

func TestListIsUpToDate(t *testing.T) {
	got, err := os.ReadFile("../../algorithm/all.go")
	if err != nil {
		t.Fatal(err)
	}
	if want := source(); string(got) != want {
		t.Errorf("algorithm/all.go is not up to date: run go generate ./algorithm\ngot\n%s\nwant\n%s", got, want)
	}
}
