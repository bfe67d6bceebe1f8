#!/bin/sh
# Generates the passwords that the services of compose.yaml share and the key of the stored credentials, unless they exist. Each
# goes only to the services that need it, in their own volumes. Nothing is printed. It also creates the archive's bucket.
set -eu
umask 077
lists=${2:-/lists}
cd "${1:-/secrets}"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# The user ids are those of the images.
give() { chmod 0400 "$1"/* && chmod 0500 "$1" && chown -R "$2" "$1"; }

# The archive's bucket is a folder that the store can write to.
if [ -d /data/archive ]; then
	mkdir -p /data/archive/sara
	chown 65532:65532 /data/archive /data/archive/sara
fi

# The settings are written last: they mark the set as complete.
if [ ! -s sara/sara.yaml ]; then
	redis=$(random) postgres=$(random) store=$(random)
	printf 'requirepass %s\n' "$redis" >redis/redis.conf
	printf '%s' "$postgres" >postgres/password
	printf '%s' "$(random)" >grafana/password
	printf 'export ROOT_ACCESS_KEY_ID=sara ROOT_SECRET_ACCESS_KEY=%s\n' "$store" >store/credentials
	printf '[default]\naws_access_key_id = sara\naws_secret_access_key = %s\n' "$store" >sara/store
	cat >sara/sara.yaml.part <<EOF
secret_key: $(head -c 32 /dev/urandom | base64)
database_url: postgres://sara:$postgres@postgres:5432/sara?sslmode=disable
redis_url: redis://sara:$redis@redis:6379
archive_url: s3://sara/archive?endpoint=http://store:7070&region=us-east-1
EOF
	give redis 999:1000
	give postgres 70:70
	give store 65532:65532
	give grafana 472:0
	mv sara/sara.yaml.part sara/sara.yaml
fi

# A set from an older version lacks the Redis for cached rows. The settings are replaced as a whole.
if ! grep -q '^redis_cache_url:' sara/sara.yaml; then
	cache=$(random)
	chmod 0700 redis-cache sara
	rm -f redis-cache/redis.conf sara/sara.yaml.part
	printf 'requirepass %s\n' "$cache" >redis-cache/redis.conf
	cat sara/sara.yaml >sara/sara.yaml.part
	printf 'redis_cache_url: redis://sara:%s@redis-cache:6379\n' "$cache" >>sara/sara.yaml.part
	give redis-cache 999:1000
	mv -f sara/sara.yaml.part sara/sara.yaml
fi

# Each Redis has one user, sara, with only the rights that sara needs (deploy/redis) and the password in redis.conf. The lists replace those
# of an older version, in which sara used the default user.
restrict() {
	hash=$(cut -d' ' -f2 "$1/redis.conf" | tr -d '\n' | sha256sum | cut -d' ' -f1)
	chmod 0700 "$1"
	sed "s/PASSWORD_SHA256/$hash/" "$lists/$2" >"$1/users.acl.part"
	mv -f "$1/users.acl.part" "$1/users.acl"
	give "$1" 999:1000
}
restrict redis counters.acl
restrict redis-cache rows.acl
if grep -q '://:' sara/sara.yaml; then
	chmod 0700 sara
	sed 's|redis://:|redis://sara:|' sara/sara.yaml >sara/sara.yaml.part
	mv -f sara/sara.yaml.part sara/sara.yaml
fi

# Even if an earlier run was interrupted right before this.
give sara 65532:65532
