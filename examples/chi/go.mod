module github.com/headgate/headgate/examples/chi

go 1.26.0

replace github.com/headgate/headgate => ../../

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/headgate/headgate v0.0.0-00010101000000-000000000000
)

require github.com/goccy/go-yaml v1.19.2 // indirect
