terraform {
  required_providers {
    launchbay = {
      source  = "launchbay.local/launchbay/launchbay"
      version = "0.1.0"
    }
  }
}

provider "launchbay" {}

variable "organization" {
  type = string
}

variable "size" {
  type    = number
  default = 2
}

data "launchbay_organization" "ours" {
  name = var.organization
}

resource "launchbay_environment" "staging" {
  organization_id = data.launchbay_organization.ours.id
  name            = "staging"
  labels          = { stage = "test" }
}

resource "launchbay_role" "deployer" {
  organization_id = data.launchbay_organization.ours.id
  name            = "Deployer"
  permissions     = "- Read: [/*]\n- CreateInstance: [/*]\n"
}

resource "launchbay_application" "greeter" {
  organization_id = data.launchbay_organization.ours.id
  name            = "greeter"
  manifest        = file("${path.module}/greeter.yaml")
}

resource "launchbay_instance" "greeter" {
  application_id = launchbay_application.greeter.id
  environment_id = launchbay_environment.staging.id
  name           = "greeter-staging"
  version        = launchbay_application.greeter.version
  parameters     = jsonencode({ "input.size" = var.size })
  labels         = { team = "web" }
}

resource "launchbay_schedule" "nightly" {
  organization_id = data.launchbay_organization.ours.id
  name            = "greet every night"
  cron            = "0 3 * * *"
  zone            = "Europe/Berlin"
  instance_id     = launchbay_instance.greeter.id
  workflow        = "greeter.greet"
}

output "greeting" {
  value = jsondecode(launchbay_instance.greeter.return_values)
}
