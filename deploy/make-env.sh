#!/bin/sh
# Prints an .env for docker-compose.yml with fresh random secrets: sh deploy/make-env.sh > .env && chmod 600 .env
set -eu
secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
sed -e "s/^TUNESMITH_ADMIN_KEY=.*/TUNESMITH_ADMIN_KEY=$(secret)/" \
    -e "s/^TUNESMITH_SECRET_KEY=.*/TUNESMITH_SECRET_KEY=$(secret)/" \
    -e "s/^TUNESMITH_ENROLMENT_KEY=.*/TUNESMITH_ENROLMENT_KEY=$(secret)/" \
    -e "s/^POSTGRES_PASSWORD=.*/POSTGRES_PASSWORD=$(secret)/" \
    -e "s/^REDIS_PASSWORD=.*/REDIS_PASSWORD=$(secret)/" \
    -e "s/^REDIS_READS_PASSWORD=.*/REDIS_READS_PASSWORD=$(secret)/" \
    -e "s/^REDIS_REPORTS_PASSWORD=.*/REDIS_REPORTS_PASSWORD=$(secret)/" \
    "$(dirname "$0")/../.env.example"
