module github.com/headgate/headgate/examples/chi

go 1.26.0

replace (
	github.com/headgate/headgate => ../../
	github.com/headgate/headgate/rules/file => ../../rules/file
)

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/headgate/headgate v0.1.0
	github.com/headgate/headgate/rules/file v0.1.0
)

require github.com/goccy/go-yaml v1.19.2 // indirect
