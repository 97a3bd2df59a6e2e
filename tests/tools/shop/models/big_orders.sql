{{ config(materialized='view') }}
select * from {{ ref('orders_merged') }} where amount > 5
