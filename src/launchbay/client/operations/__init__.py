"""Every operation of the API, as methods of both clients.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from launchbay.client.operations import (
    account,
    applications,
    approvals,
    audit,
    description,
    environments,
    health,
    instances,
    jobs,
    manifests,
    organizations,
    pages,
    revisions,
    roles,
    services,
    users,
    webhooks,
    workflows,
)


class Operations:
    """The operations: on a client they make calls, on this class they are data (`operation.py`)."""

    list_organizations = organizations.list_organizations
    create_organization = organizations.create_organization
    read_organization = organizations.read_organization
    rename_organization = organizations.rename_organization
    export_organization = organizations.export_organization
    import_organization = organizations.import_organization
    list_host_keys = organizations.list_host_keys
    forget_host_key = organizations.forget_host_key

    list_users = users.list_users
    create_user = users.create_user
    read_user = users.read_user
    update_user = users.update_user
    remove_user = users.remove_user
    assign_roles = users.assign_roles
    revoke_roles = users.revoke_roles

    list_roles = roles.list_roles
    create_role = roles.create_role
    read_role = roles.read_role
    update_role = roles.update_role
    delete_role = roles.delete_role
    explain_permission = roles.explain_permission

    list_applications = applications.list_applications
    create_application = applications.create_application
    read_application = applications.read_application
    rename_application = applications.rename_application
    delete_application = applications.delete_application
    launch_application = applications.launch_application
    preview_launch = applications.preview_launch

    replace_manifest = manifests.replace_manifest
    read_manifest = manifests.read_manifest
    validate_manifest = manifests.validate_manifest
    list_manifests = manifests.list_manifests
    set_manifest_source = manifests.set_manifest_source
    refresh_manifest = manifests.refresh_manifest

    list_revisions = revisions.list_revisions
    create_revision = revisions.create_revision
    read_revision = revisions.read_revision
    change_revision = revisions.change_revision
    delete_revision = revisions.delete_revision

    list_environments = environments.list_environments
    create_environment = environments.create_environment
    set_default_environment = environments.set_default_environment
    replace_policies = environments.replace_policies
    read_policies = environments.read_policies
    delete_environment = environments.delete_environment
    clone_environment = environments.clone_environment
    rename_environment = environments.rename_environment
    replace_markers = environments.replace_markers
    read_markers = environments.read_markers
    replace_properties = environments.replace_properties
    read_properties = environments.read_properties
    replace_environment_services = environments.replace_environment_services
    read_environment_services = environments.read_environment_services
    list_environment_offers = environments.list_environment_offers

    list_services = services.list_services
    create_service = services.create_service
    list_service_types = services.list_service_types
    list_zones = services.list_zones
    read_service = services.read_service
    update_service = services.update_service
    delete_service = services.delete_service
    run_service_command = services.run_service_command

    list_environment_instances = instances.list_environment_instances
    list_application_instances = instances.list_application_instances
    list_revision_instances = instances.list_revision_instances
    read_instance = instances.read_instance
    delete_instance = instances.delete_instance
    put_user_data = instances.put_user_data
    reconfigure_instance = instances.reconfigure_instance
    preview_configuration = instances.preview_configuration
    read_instance_environments = instances.read_instance_environments
    replace_instance_environments = instances.replace_instance_environments
    set_destroy_at = instances.set_destroy_at

    run_workflow = workflows.run_workflow
    schedule_workflow = workflows.schedule_workflow
    reschedule_workflow = workflows.reschedule_workflow
    list_schedules = workflows.list_schedules

    list_jobs = jobs.list_jobs
    read_job = jobs.read_job
    cancel_job = jobs.cancel_job
    resume_job = jobs.resume_job
    read_log = jobs.read_log
    watch_instance = jobs.watch_instance

    list_approvals = approvals.list_approvals
    list_instance_approvals = approvals.list_instance_approvals
    approve = approvals.approve
    reject = approvals.reject

    list_audit_entries = audit.list_audit_entries

    list_webhooks = webhooks.list_webhooks
    create_webhook = webhooks.create_webhook
    update_webhook = webhooks.update_webhook
    delete_webhook = webhooks.delete_webhook
    list_deliveries = webhooks.list_deliveries

    change_password = account.change_password
    list_tokens = account.list_tokens
    revoke_token = account.revoke_token
    exchange_token = account.exchange_token

    refresh_token_page = pages.refresh_token_page
    generate_token = pages.generate_token
    invitation_page = pages.invitation_page
    accept_invitation = pages.accept_invitation
    begin_sign_in = pages.begin_sign_in
    finish_sign_in = pages.finish_sign_in

    health_live = health.health_live
    health_ready = health.health_ready
    read_metrics = health.read_metrics

    openapi = description.openapi
    browse_api = description.browse_api
