module bootseer/bench/peers/kraken

go 1.26.0

tool (
	github.com/uber/kraken/agent
	github.com/uber/kraken/origin
	github.com/uber/kraken/tracker
)

require (
	cloud.google.com/go v0.43.0 // indirect
	github.com/Shopify/logrus-bugsnag v0.0.0-20171204204709-577dee27f20d // indirect
	github.com/andres-erbsen/clock v0.0.0-20160526145045-9e14626cd129 // indirect
	github.com/aws/aws-sdk-go v1.21.4 // indirect
	github.com/awslabs/amazon-ecr-credential-helper v0.3.1 // indirect
	github.com/beorn7/perks v0.0.0-20180321164747-3a771d992973 // indirect
	github.com/bshuster-repo/logrus-logstash-hook v0.4.1 // indirect
	github.com/bugsnag/bugsnag-go v1.5.0 // indirect
	github.com/bugsnag/panicwrap v0.0.0-20180510051541-1d162ee1264c // indirect
	github.com/c2h5oh/datasize v0.0.0-20171227191756-4eba002a5eae // indirect
	github.com/cactus/go-statsd-client v3.1.1+incompatible // indirect
	github.com/cenkalti/backoff v2.2.1+incompatible // indirect
	github.com/docker/distribution v0.0.0-20191024225408-dee21c0394b5 // indirect
	github.com/docker/docker-credential-helpers v0.6.3 // indirect
	github.com/docker/engine-api v0.0.0-20160908232104-4290f40c0566 // indirect
	github.com/docker/go-connections v0.0.0-20180821093606-97c2040d34df // indirect
	github.com/docker/go-metrics v0.0.0-20181218153428-b84716841b82 // indirect
	github.com/docker/go-units v0.0.0-20181030082039-2fb04c6466a5 // indirect
	github.com/docker/libtrust v0.0.0-20160708172513-aabc10ec26b7 // indirect
	github.com/garyburd/redigo v1.6.0 // indirect
	github.com/go-chi/chi v0.0.0-20190316151245-d08916613452 // indirect
	github.com/gofrs/uuid v0.0.0-20190320161447-2593f3d8aa45 // indirect
	github.com/golang/protobuf v1.4.0 // indirect
	github.com/googleapis/gax-go/v2 v2.0.5 // indirect
	github.com/gorilla/handlers v0.0.0-20190227193432-ac6d24f88de4 // indirect
	github.com/gorilla/mux v1.7.3 // indirect
	github.com/hashicorp/golang-lru v0.5.1 // indirect
	github.com/inconshreveable/mousetrap v1.0.0 // indirect
	github.com/jackpal/bencode-go v0.0.0-20180813173944-227668e840fa // indirect
	github.com/jmespath/go-jmespath v0.0.0-20180206201540-c2b33e8439af // indirect
	github.com/jmoiron/sqlx v0.0.0-20190319043955-cdf62fdf55f6 // indirect
	github.com/kardianos/osext v0.0.0-20190222173326-2bc1f35cddc0 // indirect
	github.com/konsorten/go-windows-terminal-sequences v1.0.2 // indirect
	github.com/mattn/go-sqlite3 v1.9.0 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.1 // indirect
	github.com/mitchellh/go-homedir v1.1.0 // indirect
	github.com/opencontainers/go-digest v0.0.0-20190228220655-ac19fd6e7483 // indirect
	github.com/opencontainers/image-spec v1.0.0 // indirect
	github.com/pkg/errors v0.8.0 // indirect
	github.com/pressly/chi v4.0.2+incompatible // indirect
	github.com/pressly/goose v2.6.0+incompatible // indirect
	github.com/prometheus/client_golang v0.9.1 // indirect
	github.com/prometheus/client_model v0.0.0-20190129233127-fd36f4220a90 // indirect
	github.com/prometheus/common v0.2.0 // indirect
	github.com/prometheus/procfs v0.0.0-20190328153300-af7bedc223fb // indirect
	github.com/satori/go.uuid v1.2.0 // indirect
	github.com/sirupsen/logrus v1.4.2 // indirect
	github.com/spaolacci/murmur3 v0.0.0-20170819071325-9f5d223c6079 // indirect
	github.com/spf13/cobra v0.0.4 // indirect
	github.com/spf13/pflag v1.0.3 // indirect
	github.com/uber-go/tally v3.3.11+incompatible // indirect
	github.com/uber/kraken v0.1.4 // indirect
	github.com/willf/bitset v0.0.0-20190228212526-18bd95f470f9 // indirect
	github.com/yvasiyarov/go-metrics v0.0.0-20150112132944-c25f46c4b940 // indirect
	github.com/yvasiyarov/gorelic v0.0.0-20180809112600-635ca6035f23 // indirect
	github.com/yvasiyarov/newrelic_platform_go v0.0.0-20160601141957-9c099fbc30e9 // indirect
	go.opencensus.io v0.22.0 // indirect
	go.uber.org/atomic v1.4.0 // indirect
	go.uber.org/multierr v1.1.0 // indirect
	go.uber.org/zap v0.0.0-20190327195448-badef736563f // indirect
	golang.org/x/crypto v0.0.0-20190605123033-f99c8df09eb5 // indirect
	golang.org/x/net v0.0.0-20190620200207-3b0461eec859 // indirect
	golang.org/x/oauth2 v0.0.0-20190604053449-0f29369cfe45 // indirect
	golang.org/x/sync v0.0.0-20190423024810-112230192c58 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.3.2 // indirect
	golang.org/x/time v0.0.0-20190308202827-9d24e82272b4 // indirect
	google.golang.org/api v0.7.0 // indirect
	google.golang.org/appengine v1.6.1 // indirect
	google.golang.org/genproto v0.0.0-20190716160619-c506a9f90610 // indirect
	google.golang.org/grpc v1.21.1 // indirect
	google.golang.org/protobuf v1.21.0 // indirect
	gopkg.in/validator.v2 v2.0.0-20180514200540-135c24b11c19 // indirect
	gopkg.in/yaml.v2 v2.2.2 // indirect
)
