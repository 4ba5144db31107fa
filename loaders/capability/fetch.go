package capability

// Fetcher performs the HTTP requests of one namespace's loader.
type Fetcher struct{}
