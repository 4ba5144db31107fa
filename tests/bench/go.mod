module github.com/cocache/cocache/tests/bench

go 1.26.0

replace github.com/cocache/cocache => ../..

require (
	github.com/cocache/cocache v0.0.0-00010101000000-000000000000
	github.com/maypok86/otter/v2 v2.4.0
	github.com/redis/rueidis v1.0.80
	github.com/redis/rueidis/rueidisaside v1.0.78
	github.com/viccon/sturdyc v1.1.5
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
